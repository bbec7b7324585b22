-- Reasons for a rewrite: 2 is a default, 4 a type; persistence (1) and access method (8) do not change values. Errors
-- become warnings, as in note_shapes.sql.
BEGIN
  IF pg_event_trigger_table_rewrite_reason() & 6 <> 0 THEN
    UPDATE {history} SET rewritten_by = {current} WHERE relation = pg_event_trigger_table_rewrite_oid();
  END IF;
EXCEPTION
  WHEN serialization_failure OR deadlock_detected THEN RAISE;
  WHEN OTHERS THEN RAISE WARNING 'cdc: a change of a table''s rows was not noted: %', SQLERRM;
END
