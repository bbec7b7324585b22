-- What a bench's database has beside its tables: the procedures that write.
-- A note of every transaction: which backend wrote it, and its place among that backend's. Unlogged and unpublished.
CREATE UNLOGGED TABLE bench_notes (xid bigint NOT NULL, writer integer NOT NULL, seq bigint NOT NULL);

CREATE FUNCTION bench_note_text(id bigint) RETURNS text LANGUAGE sql STABLE AS $$
    -- every tenth is null, the others 20 to 64 characters that do not compress
    SELECT CASE WHEN id % 10 = 0 THEN NULL ELSE substr(md5(id::text) || md5((random())::text), 1, 20 + (id % 45)::integer) END
$$;

CREATE PROCEDURE bench_fill(name text, first bigint, last bigint) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %I SELECT g, pg_current_xact_id()::text::bigint, 0, 0, (random() * 1000)::numeric(12, 2),'
        ' bench_note_text(g), clock_timestamp() FROM generate_series($1, $2) g', name) USING first, last;
END $$;

-- One change of one row: nine in ten an update, else an insert or a delete, of a key up to `keys`; false where it met none.
CREATE FUNCTION bench_change(name text, keys bigint, fresh bigint, by_writer integer, place bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    kind double precision := random();
    key bigint := 1 + floor(random() * keys)::bigint;
    met bigint;
BEGIN
    IF kind < 0.9 THEN
        EXECUTE format('UPDATE %I SET xid = pg_current_xact_id()::text::bigint, writer = $2, seq = $3, amount = amount + 1,'
            ' written_at = clock_timestamp() WHERE id = $1', name) USING key, by_writer, place;
    ELSIF kind < 0.95 THEN
        EXECUTE format('INSERT INTO %I VALUES ($1, pg_current_xact_id()::text::bigint, $3, $2, 1.10, bench_note_text($1),'
            ' clock_timestamp())', name) USING fresh, by_writer, place;
    ELSE
        EXECUTE format('DELETE FROM %I WHERE id = $1', name) USING key;
    END IF;
    GET DIAGNOSTICS met = ROW_COUNT;
    RETURN met > 0;
END $$;

-- Single-row transactions at an even pace, from one backend: the next is due `1 / rate` after the one before.
CREATE PROCEDURE bench_pace(name text, keys bigint, fresh bigint, by_writer integer, place bigint, rate double precision,
    seconds double precision) LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz := clock_timestamp();
    due double precision;
    ahead double precision;
BEGIN
    FOR n IN 0 .. ceil(rate * seconds)::bigint - 1 LOOP
        due := n / rate;
        ahead := due - extract(epoch FROM clock_timestamp() - began);
        IF ahead > 0 THEN
            PERFORM pg_sleep(ahead);
        END IF;
        IF bench_change(name, keys, fresh + n, by_writer, place + n) THEN
            INSERT INTO bench_notes VALUES (pg_current_xact_id()::text::bigint, by_writer, place + n);
        END IF;
        COMMIT;
    END LOOP;
END $$;

-- Single-row transactions as fast as one backend can.
CREATE PROCEDURE bench_burst(name text, keys bigint, fresh bigint, by_writer integer, transactions bigint)
LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN 0 .. transactions - 1 LOOP
        -- one that met no row would be no transaction at all: try the next key
        WHILE NOT bench_change(name, keys, fresh + n, by_writer, n) LOOP
        END LOOP;
        COMMIT;
    END LOOP;
END $$;

-- One transaction of about `changes` rows of random keys, in the same mix; tells its id, and how many rows it changed.
CREATE PROCEDURE bench_batch(name text, keys bigint, fresh bigint, changes bigint, INOUT id bigint, INOUT met bigint)
LANGUAGE plpgsql AS $$
DECLARE
    chosen text := '(SELECT DISTINCT 1 + floor(random() * $1)::bigint AS id FROM generate_series(1, $2)) AS chosen';
    more bigint;
BEGIN
    id := pg_current_xact_id()::text::bigint;
    EXECUTE format('UPDATE %I t SET xid = $3, amount = amount + 1, written_at = clock_timestamp() FROM %s'
        ' WHERE t.id = chosen.id', name, chosen) USING keys, changes * 9 / 10, id;
    GET DIAGNOSTICS met = ROW_COUNT;
    EXECUTE format('INSERT INTO %I SELECT g, $3, 0, 0, 1.10, bench_note_text(g), clock_timestamp()'
        ' FROM generate_series($1, $1 + $2 - 1) g', name) USING fresh, changes / 20, id;
    GET DIAGNOSTICS more = ROW_COUNT;
    met := met + more;
    EXECUTE format('DELETE FROM %I t USING %s WHERE t.id = chosen.id', name, chosen) USING keys, changes / 20;
    GET DIAGNOSTICS more = ROW_COUNT;
    met := met + more;
    COMMIT;
END $$;
