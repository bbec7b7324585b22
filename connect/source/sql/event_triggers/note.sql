-- Writes the shapes that differ, and no others: a written row is locked until its transaction ends, and DDL of other
-- tables must not wait for that. For the same reason it takes no locks on other tables: `pg_get_publication_tables` and
-- `pg_partition_tree` would, so other queries replace them. Tables that are no longer published are written once more.
-- Of our own tables only the heartbeat's is written: where its publication changes, beats may be missing in the log.
-- {commanded}: further tables; {apart}: a further condition. `moved`: the publications that the table came to or left just
-- now. For their pipelines it has lost changes; to those of others it is the same.
WITH sent AS MATERIALIZED {sent}
INSERT INTO {history} (schema, "table", relation, shape, rewritten_by)
SELECT now.schema, now."table", now.relation, (now.shape || CASE
           WHEN s.relation = now.relation AND s.shape::jsonb->'publications' <> now.shape->'publications'
           THEN jsonb_build_object('moved', (
               SELECT jsonb_agg(coalesce(was.name, has.name) ORDER BY coalesce(was.name, has.name))
                 FROM jsonb_array_elements_text(s.shape::jsonb->'publications') AS was(name)
                 FULL JOIN jsonb_array_elements_text(now.shape->'publications') AS has(name) USING (name)
                WHERE was.name IS NULL OR has.name IS NULL))
           ELSE '{{}}' END)::text,
       CASE WHEN {moved} THEN {current} ELSE coalesce(s.rewritten_by, 0) END
  FROM (SELECT found.schema, found."table", found.relation, found.shape || jsonb_build_object('publications', (
               SELECT coalesce(jsonb_agg(sent.label ORDER BY sent.label), '[]')
                 FROM sent WHERE sent.relid = found.relation::oid)) AS shape
          FROM ({shapes} WHERE (n.nspname <> {own} OR c.relname = {beats})
                AND c.relpersistence <> 't' AND c.relkind IN ('r', 'p') AND (
                    c.oid IN (SELECT relid FROM sent {commanded})
                    OR c.oid IN (SELECT relation::oid FROM {history} WHERE shape::jsonb->'publications' <> '[]')
                ) {apart}) AS found) AS now
  LEFT JOIN {history} s USING (schema, "table")
 WHERE s.shape::jsonb - 'moved' IS DISTINCT FROM now.shape OR s.relation <> now.relation
ON CONFLICT (schema, "table") DO UPDATE
   SET relation = EXCLUDED.relation, shape = EXCLUDED.shape, rewritten_by = EXCLUDED.rewritten_by
