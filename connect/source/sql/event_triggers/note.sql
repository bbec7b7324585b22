-- Writes the shapes that differ, and no others: a written row is locked until its transaction ends, and DDL of other
-- tables must not wait for that. For the same reason it takes no locks on other tables: `pg_get_publication_tables` and
-- `pg_partition_tree` would, so other queries replace them. Tables that are no longer published are written once more.
-- {commanded}: further tables; {apart}: a further condition.
WITH sent AS MATERIALIZED {sent}
INSERT INTO {history} (schema, "table", relation, shape, rewritten_by)
SELECT now.schema, now."table", now.relation, now.shape::text,
       CASE WHEN {moved} THEN {current} ELSE coalesce(s.rewritten_by, 0) END
  FROM (SELECT found.schema, found."table", found.relation, found.shape || jsonb_build_object('publications', (
               SELECT coalesce(jsonb_agg(sent.pubname ORDER BY sent.pubname), '[]')
                 FROM sent WHERE sent.relid = found.relation::oid)) AS shape
          FROM ({shapes} WHERE n.nspname <> {own} AND c.relpersistence <> 't' AND c.relkind IN ('r', 'p') AND (
                    c.oid IN (SELECT relid FROM sent {commanded})
                    OR c.oid IN (SELECT relation::oid FROM {history} WHERE shape::jsonb->'publications' <> '[]')
                ) {apart}) AS found) AS now
  LEFT JOIN {history} s USING (schema, "table")
 WHERE s.shape IS DISTINCT FROM now.shape::text OR s.relation <> now.relation
ON CONFLICT (schema, "table") DO UPDATE
   SET relation = EXCLUDED.relation, shape = EXCLUDED.shape, rewritten_by = EXCLUDED.rewritten_by
