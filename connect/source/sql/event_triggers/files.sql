-- The current file numbers, for tables whose rewrite is noted already or changed no rows.
INSERT INTO {files} (relation, file, told)
SELECT relation, pg_relation_filenode(relation::oid), '' FROM {history}
ON CONFLICT (relation) DO UPDATE SET file = EXCLUDED.file WHERE files.file IS DISTINCT FROM EXCLUDED.file
