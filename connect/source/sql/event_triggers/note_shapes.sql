-- Never fails the user's DDL: errors become warnings. Exceptions are serialization failures and deadlocks, which the user
-- has to expect and retry: with a warning only, the change would never be noted.
DECLARE unreadable record;
BEGIN
  IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands())
     AND NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name IS DISTINCT FROM 'pg_temp') THEN
    RETURN;
  END IF;
  {prune}
  {note};
EXCEPTION
  WHEN serialization_failure OR deadlock_detected THEN RAISE;
  WHEN OTHERS THEN RAISE WARNING 'cdc: a change of a table''s schema was not noted: %', SQLERRM;
END
