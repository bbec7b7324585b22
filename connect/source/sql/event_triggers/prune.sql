-- Forgets tables that are gone, and takes those out of the publications that Debezium cannot read.
DELETE FROM {history} s WHERE NOT EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = s.relation::oid AND n.nspname = s.schema AND c.relname = s."table");
  LOOP
    -- asked anew each time: what is executed here is an event that this function hears of, too
    {unreadable} LIMIT 1;
    EXIT WHEN NOT FOUND;
    EXECUTE format('ALTER PUBLICATION %I DROP TABLE ONLY %s', unreadable.pubname, unreadable.name);
  END LOOP;
