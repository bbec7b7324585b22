-- What the database of a shop has beside `source.sql`: tables that views join, and changes of them.
CREATE TYPE listed AS (id bigint, placed_at timestamptz, total numeric(12, 2));

-- Customers 1 to `people` with orders 1 to `count`, which every customer has as many of.
CREATE PROCEDURE shop_fill(customers text, orders text, people bigint, first bigint, last bigint) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %I SELECT g, ''customer '' || g FROM generate_series(1, $1) g ON CONFLICT DO NOTHING',
        customers) USING people;
    EXECUTE format('INSERT INTO %I SELECT g, 1 + (g * 7919) %% $1, (random() * 1000)::numeric(12, 2),'
        ' clock_timestamp(), 0, 0 FROM generate_series($2, $3) g', orders) USING people, first, last;
END $$;

-- In the place of the bench's own, for its pace: one change of one row. Of twenty: two names of customers, two orders that
-- move to another customer, fourteen other totals, a new order and a deleted one. There are ten orders for each customer.
CREATE OR REPLACE FUNCTION bench_change(name text, keys bigint, fresh bigint, by_writer integer, place bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    kind double precision := random();
    key bigint := 1 + floor(random() * keys)::bigint;
    someone bigint := 1 + floor(random() * keys / 10)::bigint;
    paid numeric(12, 2) := random() * 1000;
    met bigint;
BEGIN
    IF kind < 0.1 THEN
        UPDATE customers SET name = format('customer %s by %s', place, by_writer) WHERE id = someone;
    ELSIF kind < 0.2 THEN
        UPDATE orders SET customer_id = someone, writer = by_writer, seq = place WHERE id = key;
    ELSIF kind < 0.9 THEN
        UPDATE orders SET total = paid, writer = by_writer, seq = place WHERE id = key;
    ELSIF kind < 0.95 THEN
        INSERT INTO orders VALUES (fresh, someone, paid, clock_timestamp(), by_writer, place);
    ELSE
        DELETE FROM orders WHERE id = key;
    END IF;
    GET DIAGNOSTICS met = ROW_COUNT;
    RETURN met > 0;
END $$;
