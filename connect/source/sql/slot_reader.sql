-- Columns of other roles' sessions are null without the right to see them, `state` too. A walsender that waits for the
-- connector or for WAL has the wait event type Client or Activity; with IO or a short lock it is working.
SELECT slot.confirmed_flush_lsn::text, slot.active, sender.sent_lsn::text,
       session.state IS NOT NULL AND COALESCE(session.wait_event_type, 'IO') IN ('IO', 'LWLock', 'BufferPin'),
       extract(epoch FROM clock_timestamp())::float8
  FROM (SELECT) AS one
  LEFT JOIN pg_replication_slots slot ON slot.slot_name = %s
  LEFT JOIN pg_stat_replication sender ON sender.pid = slot.active_pid
  LEFT JOIN pg_stat_activity session ON session.pid = slot.active_pid
