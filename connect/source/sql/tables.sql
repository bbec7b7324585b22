-- Tables that could be followed; none of a schema with a dot in its name: `schema.table` would be ambiguous.
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't' AND n.nspname <> %s
   AND NOT starts_with(n.nspname, 'pg_') AND n.nspname <> 'information_schema' AND strpos(n.nspname, '.') = 0
 ORDER BY 1, 2
