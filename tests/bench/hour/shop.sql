-- The leader of the hour: what is followed, and who writes to it. `hour_progress` counts commits, and is not followed.
CREATE TABLE customers (id bigint PRIMARY KEY, name text NOT NULL, region integer NOT NULL);
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id bigint NOT NULL, total numeric(12, 2) NOT NULL, note text,
    placed_at timestamptz NOT NULL);
CREATE TABLE saved_searches (id bigint PRIMARY KEY, query jsonb NOT NULL);
-- room on its pages, so that no index grows with each count
CREATE TABLE hour_progress (writer integer PRIMARY KEY, commits bigint NOT NULL) WITH (fillfactor = 10);
CREATE SEQUENCE hour_ids CACHE 100;

CREATE PROCEDURE hour_fill(first bigint, last bigint, customers bigint) LANGUAGE sql AS $$
    INSERT INTO orders SELECT g, 1 + floor(random() * customers)::bigint, (random() * 1000)::numeric(12, 2),
        substr(md5(g::text) || md5((random())::text), 1, 20 + (g % 45)::integer), clock_timestamp()
        FROM generate_series(first, last) g;
$$;

-- Single-row transactions at an even pace, from one backend: inserts in the share that is asked for, one in twenty a
-- delete, one in fifty of a customer, the others updates. Keys are drawn from all that were ever there.
CREATE PROCEDURE hour_pace(by_writer integer, rate double precision, seconds double precision,
    inserts double precision, buyers bigint) LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz := clock_timestamp();
    ahead double precision;
    kind double precision;
    newest bigint;
    placed bigint;
    buyer bigint;
BEGIN
    FOR n IN 0 .. ceil(rate * seconds)::bigint - 1 LOOP
        ahead := n / rate - extract(epoch FROM clock_timestamp() - began);
        IF ahead > 0 THEN
            PERFORM pg_sleep(ahead);
        ELSIF ahead < -seconds THEN
            RETURN;
        END IF;
        kind := random();
        IF n % 100 = 0 THEN
            SELECT last_value INTO newest FROM hour_ids;
        END IF;
        -- drawn once: in a WHERE, random() is drawn anew for each row, and no index is used
        placed := 1 + floor(random() * newest)::bigint;
        buyer := 1 + floor(random() * buyers)::bigint;
        IF kind < inserts THEN
            INSERT INTO orders VALUES (nextval('hour_ids'), buyer,
                (random() * 1000)::numeric(12, 2), md5(n::text), clock_timestamp());
        ELSIF kind < inserts + 0.05 THEN
            DELETE FROM orders WHERE id = placed;
        ELSIF kind < inserts + 0.07 THEN
            UPDATE customers SET name = md5(random()::text) WHERE id = buyer;
        ELSE
            UPDATE orders SET total = (random() * 1000)::numeric(12, 2), placed_at = clock_timestamp()
             WHERE id = placed;
        END IF;
        UPDATE hour_progress SET commits = commits + 1 WHERE writer = by_writer;
        COMMIT;
    END LOOP;
END $$;
