-- All relations with their shapes: schema, table, relation, shape. A condition may follow.
-- `key`: without INCLUDE columns, which follow the others in indkey. `columns`: system columns have numbers below 1, and
-- dropped ones stay in the catalog. In a partitioned table only the partitions have rows that a default may fill.
-- `types`: of the columns, and the types under domains, of array elements and of composite fields; int2vector and
-- oidvector are arrays with a text form of their own.
SELECT n.nspname::text AS schema, c.relname::text AS "table", c.oid::bigint AS relation, jsonb_build_object(
    'kind', c.relkind, 'persistence', c.relpersistence, 'identity', c.relreplident,
    'key_immediate', coalesce(i.indimmediate, false), 'key_primary', coalesce(i.indisprimary, false),
    'key', (SELECT coalesce(jsonb_agg(a.attname ORDER BY k.n), '[]')
              FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
              JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
             WHERE k.n <= i.indnkeyatts),
    'columns', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                    'name', a.attname, 'number', a.attnum, 'type', a.atttypid::bigint, 'modifier', a.atttypmod,
                    'not_null', a.attnotnull,
                    'is_generated', a.attgenerated <> '',
                    'fills_old_rows', a.atthasmissing OR EXISTS (
                        SELECT FROM pg_attribute own
                         WHERE own.attrelid = ANY (leaf.oids) AND own.attname = a.attname AND own.atthasmissing))
                    ORDER BY a.attnum), '[]')
                  FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
    'types', (WITH RECURSIVE used(oid) AS (
                  SELECT a.atttypid FROM pg_attribute a
                   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                UNION
                  SELECT part FROM used JOIN pg_type t USING (oid), unnest(ARRAY[t.typbasetype, t.typelem] || ARRAY(
                         SELECT atttypid FROM pg_attribute
                          WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped)) AS part
                   WHERE part <> 0
              )
              SELECT coalesce(jsonb_agg(jsonb_build_object(
                  'oid', t.oid::bigint, 'name', t.typname, 'schema', tn.nspname, 'is_enum', t.typtype = 'e',
                  'modifier', t.typtypmod, 'base', CASE t.typtype WHEN 'd' THEN t.typbasetype::bigint ELSE 0 END,
                  'element', CASE WHEN t.typcategory = 'A' AND t.typtype = 'b'
                                   AND t.typname NOT IN ('int2vector', 'oidvector')
                                  THEN t.typelem::bigint ELSE 0 END)
                  || CASE t.typtype WHEN 'e' THEN jsonb_build_object('labels', (
                         SELECT jsonb_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e
                          WHERE e.enumtypid = t.oid))
                     WHEN 'c' THEN jsonb_build_object('attributes', (
                         SELECT jsonb_agg(jsonb_build_array(atttypid::bigint, atttypmod) ORDER BY attnum)
                           FROM pg_attribute WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped))
                     ELSE '{}' END
                  || CASE t.typdelim WHEN ',' THEN '{}' ELSE jsonb_build_object('separator', t.typdelim) END
                  ORDER BY t.oid), '[]')
                FROM used JOIN pg_type t USING (oid) JOIN pg_namespace tn ON tn.oid = t.typnamespace)
    ) || CASE c.relkind WHEN 'p' THEN jsonb_build_object('leaves', (
              SELECT coalesce(jsonb_agg(jsonb_build_object(
                         'schema', ln.nspname, 'table', l.relname, 'relation', l.oid::bigint, 'kind', l.relkind,
                         'persistence', l.relpersistence, 'identity', l.relreplident,
                         'file', pg_relation_filenode(l.oid)::bigint) ORDER BY l.oid), '[]')
                FROM pg_class l JOIN pg_namespace ln ON ln.oid = l.relnamespace WHERE l.oid = ANY (leaf.oids)))
         ELSE '{}' END
      || CASE WHEN c.relispartition THEN jsonb_build_object('within', (
              SELECT jsonb_agg(jsonb_build_object('schema', an.nspname, 'table', a.relname) ORDER BY a.oid)
                FROM pg_partition_ancestors(c.oid) AS ancestor
                JOIN pg_class a ON a.oid = ancestor.relid AND a.oid <> c.oid
                JOIN pg_namespace an ON an.oid = a.relnamespace))
         ELSE '{}' END AS shape
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_index i ON i.indrelid = c.oid
       AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
 CROSS JOIN LATERAL (
       WITH RECURSIVE tree(oid) AS (
           SELECT c.oid WHERE c.relkind = 'p'
           UNION ALL SELECT inhrelid FROM tree JOIN pg_inherits ON inhparent = tree.oid)
       SELECT coalesce(array_agg(oid), '{}') AS oids FROM tree JOIN pg_class USING (oid) WHERE relkind <> 'p') AS leaf
