-- One beat, as JSON.
jsonb_build_object('at', clock_timestamp(), 'mark', {mark}::text, 'slot', (
    SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = {slot}), 'previous', {previous})::text
