-- In an event trigger: also the tables that the user's command has changed.
UNION SELECT objid FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table'
