-- One row, also without the slot. Columns that older versions lack are read by way of JSON: `inactive_since` is of 17.
-- What keeps the slot back is the oldest transaction that has an id, of any database, prepared ones included: decoding
-- begins anew behind it only. Its id is shown to everybody, when it began only to who may see other roles' sessions.
-- A lost slot keeps no WAL, though Postgres may show where it began; one that its own guard drops soon, neither.
SELECT extract(epoch FROM clock_timestamp())::float8, (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
       ELSE pg_current_wal_lsn() END)::text, current_setting('server_version'),
       CASE WHEN current_setting('max_slot_wal_keep_size') = '-1' THEN NULL
            ELSE pg_size_bytes(current_setting('max_slot_wal_keep_size')) END,
       slot.safe_wal_size, extract(epoch FROM (to_jsonb(slot) ->> 'inactive_since')::timestamptz)::float8,
       age(COALESCE(slot.catalog_xmin, slot.xmin))::bigint, decoded.spill_bytes,
       pg_wal_lsn_diff(other.restart_lsn, slot.restart_lsn)::bigint, other.slot_name::text, to_jsonb(oldest)
  FROM (SELECT) AS one
  LEFT JOIN pg_replication_slots slot ON slot.slot_name = %(slot)s
  LEFT JOIN pg_stat_replication_slots decoded ON decoded.slot_name = %(slot)s
  LEFT JOIN LATERAL (
      SELECT slot_name, restart_lsn FROM pg_replication_slots
       WHERE slot_name <> %(slot)s AND restart_lsn IS NOT NULL AND wal_status <> 'lost'
         AND hashtext(slot_name::text)::oid NOT IN (
             SELECT objid FROM pg_locks
              WHERE locktype = 'advisory' AND classid = %(drops)s AND objsubid = 2 AND granted)
       ORDER BY restart_lsn LIMIT 1) other ON true
  LEFT JOIN LATERAL (
      SELECT pid, NULL AS gid, usename::text AS "user", application_name AS application, datname::text AS database,
             extract(epoch FROM xact_start)::float8 AS since, extract(epoch FROM query_start)::float8 AS query_since,
             age(backend_xid) AS xid_age
        FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
      UNION ALL
      SELECT NULL, gid, owner::text, NULL, database::text, extract(epoch FROM prepared)::float8, NULL, age(transaction)
        FROM pg_prepared_xacts
       ORDER BY xid_age DESC LIMIT 1) oldest ON true
