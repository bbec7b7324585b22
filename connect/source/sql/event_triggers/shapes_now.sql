-- Without event triggers a migration calls this function after its commands. A new file number shows a rewrite; VACUUM
-- FULL, CLUSTER and TRUNCATE look the same, so they cost a copy. It raises errors, since its caller wants the note.
DECLARE unreadable record;
BEGIN
  {prune}
  UPDATE {history} s SET rewritten_by = {current} FROM {files} f
   WHERE f.relation = s.relation AND f.file <> pg_relation_filenode(s.relation::oid);
  {note};
  INSERT INTO {files} (relation, file, told)
  SELECT relation, pg_relation_filenode(relation::oid), shape FROM {history}
  ON CONFLICT (relation) DO UPDATE SET file = EXCLUDED.file, told = EXCLUDED.told
   WHERE (files.file, files.told) IS DISTINCT FROM (EXCLUDED.file, EXCLUDED.told);
END
