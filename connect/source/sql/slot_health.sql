-- One row, also without the slot. Columns that older versions lack are read by way of JSON: `inactive_since` is of 17.
-- What keeps the slot back is the oldest transaction that has an id: decoding begins anew behind it only.
SELECT extract(epoch FROM clock_timestamp())::float8, (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
       ELSE pg_current_wal_lsn() END)::text, current_setting('server_version'),
       CASE WHEN current_setting('max_slot_wal_keep_size') = '-1' THEN NULL
            ELSE pg_size_bytes(current_setting('max_slot_wal_keep_size')) END,
       slot.safe_wal_size, extract(epoch FROM (to_jsonb(slot) ->> 'inactive_since')::timestamptz)::float8,
       age(COALESCE(slot.catalog_xmin, slot.xmin))::bigint, decoded.spill_bytes,
       oldest.pid, oldest.usename::text, extract(epoch FROM oldest.xact_start)::float8
  FROM (SELECT) AS one
  LEFT JOIN pg_replication_slots slot ON slot.slot_name = %(slot)s
  LEFT JOIN pg_stat_replication_slots decoded ON decoded.slot_name = %(slot)s
  LEFT JOIN LATERAL (
      SELECT pid, usename, xact_start FROM pg_stat_activity
       WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1) oldest ON true
