-- Debezium fails at a table whose columns differ by case only: while streaming, and at every start.
SELECT pubname, relid::regclass AS name INTO unreadable FROM {sent} AS sent WHERE EXISTS (
    SELECT FROM pg_attribute a WHERE a.attrelid = sent.relid AND a.attnum > 0 AND NOT a.attisdropped
     GROUP BY lower(a.attname) HAVING count(*) > 1)
