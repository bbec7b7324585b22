-- A condition: rows of `s` have become those of `now` without change events. That is so if
-- - a partition with rows was attached or detached, or one was truncated (neither is sent);
-- - the table became a partition, so its changes have another table's name from now on;
-- - a generated column became a plain one, and keeps its values;
-- - a value of an enum was renamed, or the fields of a composite type changed.
(s.relation = now.relation AND (
         s.shape::jsonb->'within' IS DISTINCT FROM now.shape->'within'
         OR EXISTS (
            SELECT FROM jsonb_to_recordset(s.shape::jsonb->'leaves') AS was(relation oid, file oid)
             WHERE NOT EXISTS (SELECT FROM jsonb_to_recordset(now.shape->'leaves') AS l(relation oid, file oid)
                                WHERE l.relation = was.relation AND l.file = was.file))
         OR EXISTS (
            SELECT FROM jsonb_to_recordset(now.shape->'leaves') AS l(relation oid)
             WHERE pg_relation_size(l.relation) > 0
               AND NOT EXISTS (SELECT FROM jsonb_to_recordset(s.shape::jsonb->'leaves') AS was(relation oid)
                                WHERE was.relation = l.relation))
         OR EXISTS (
            SELECT FROM jsonb_to_recordset(s.shape::jsonb->'columns') AS was(number int, is_generated bool)
              JOIN jsonb_to_recordset(now.shape->'columns') AS c(number int, is_generated bool) USING (number)
             WHERE was.is_generated AND NOT c.is_generated)
         OR EXISTS (
            SELECT FROM jsonb_to_recordset(s.shape::jsonb->'types') AS was(oid oid, labels jsonb, attributes jsonb)
              JOIN jsonb_to_recordset(now.shape->'types') AS t(oid oid, labels jsonb, attributes jsonb) USING (oid)
             WHERE NOT t.labels @> was.labels OR t.attributes <> was.attributes)))
