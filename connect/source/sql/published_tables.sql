-- Not the view pg_publication_tables: it opens every table, so it waits while one of them is locked.
SELECT namespace.nspname, relation.relname
  FROM pg_publication_rel published
  JOIN pg_publication publication ON publication.oid = published.prpubid
  JOIN pg_class relation ON relation.oid = published.prrelid
  JOIN pg_namespace namespace ON namespace.oid = relation.relnamespace
 WHERE publication.pubname = %s
