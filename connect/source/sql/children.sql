-- The tables that inherit from the named ones, which hold rows of their own: a SELECT without ONLY shows them, too.
WITH RECURSIVE below(ancestor, oid) AS (
    SELECT named.oid, link.inhrelid
      FROM unnest(%s::text[], %s::text[]) AS wanted(schema, "table")
      JOIN pg_namespace ns ON ns.nspname = wanted.schema
      JOIN pg_class named ON named.relnamespace = ns.oid AND named.relname = wanted."table" AND named.relkind <> 'p'
      JOIN pg_inherits link ON link.inhparent = named.oid
    UNION
    SELECT below.ancestor, link.inhrelid FROM below JOIN pg_inherits link ON link.inhparent = below.oid
)
SELECT an.nspname, a.relname, n.nspname, c.relname
  FROM below
  JOIN pg_class a ON a.oid = below.ancestor
  JOIN pg_namespace an ON an.oid = a.relnamespace
  JOIN pg_class c ON c.oid = below.oid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 ORDER BY 1, 2, 3, 4
