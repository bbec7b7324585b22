"""A seeded workload on two tables: every kind of change, many of a key, across tables, and some rolled back."""

import random
from dataclasses import dataclass, field
from typing import Any

import psycopg

ORDERS, ITEMS = "public.orders", "public.items"
SCHEMA = (
    "CREATE TABLE orders (id int PRIMARY KEY, customer text, total numeric(10, 2), note text, at timestamptz,"
    " day date, tm time, j jsonb, u uuid, b bytea, n numeric, f8 double precision, f4 real, ts timestamp, ok boolean,"
    " s2 smallint, i8 bigint, name varchar(20), code char(4))",
    "ALTER TABLE orders ALTER COLUMN note SET STORAGE EXTERNAL",
    "CREATE TABLE items (order_id int, line int, what text, PRIMARY KEY (order_id, line))",
    "ALTER TABLE items ALTER COLUMN what SET STORAGE EXTERNAL",
    "INSERT INTO orders SELECT g, 'c' || g % 100, g * 1.1, repeat('n', g % 5000), now(), current_date,"
    " '23:59:59.123456', '{\"a\": [1, null]}', gen_random_uuid(), '\\x00ff', g * 1e-5, 0.1 + g, 0.1,"
    " localtimestamp, g % 2 = 0, g % 100,"
    " 9007199254740993 + g, 'name ' || g, 'x' FROM generate_series(1, 2000) g",
    "INSERT INTO items SELECT g, l, repeat('w', 3000) FROM generate_series(1, 500) g, generate_series(1, 2) l",
)
BIG = 4000
"""Characters of a text that is stored out of line, and not sent when it is left alone."""


@dataclass
class Workload:
    """Writes random transactions; the same seed writes the same."""

    connection: "psycopg.Connection[Any]"
    random: random.Random
    changes: int = 0
    fresh: int = field(default=1_000_000)
    keys: list[int] = field(default_factory=lambda: list(range(1, 2001)))

    def write(self, transactions: int) -> None:
        for _ in range(transactions):
            with self.connection.transaction(force_rollback=self.random.random() < 0.03):
                for _ in range(self.random.choice((1, 1, 1, 2, 3, 8))):
                    self.changes += self._step().rowcount

    def _step(self) -> "psycopg.Cursor[Any]":
        statement, values = self._statement(self.random.random(), self.random.randrange(len(self.keys)))
        return self.connection.execute(statement.encode(), values)

    def _statement(self, pick: float, place: int) -> tuple[str, tuple[object, ...]]:
        text = self.random.choice("ghi") * self.random.choice((3, BIG)) + str(pick)
        key, item = self.keys[place], self.random.randint(1, 500)
        if pick < 0.25:
            self.keys.append(self._fresh())
            return "INSERT INTO orders (id, customer, note) VALUES (%s, %s, %s)", (self.fresh, str(key), text)
        if pick < 0.35:
            self.keys[place] = self._fresh()
            return "UPDATE orders SET id = %s WHERE id = %s", (self.fresh, key)
        if pick < 0.45 and len(self.keys) > 1:
            del self.keys[place]
            return "DELETE FROM orders WHERE id = %s", (key,)
        choices: list[tuple[float, str, tuple[object, ...]]] = [
            (0.75, "UPDATE orders SET total = total + 1, s2 = 1 - s2 WHERE id = %s", (key,)),
            (0.85, "UPDATE orders SET note = %s WHERE id = %s", (text, key)),
            (0.95, "UPDATE items SET line = line + 10 WHERE order_id = %s", (item,)),
            (1.0, "UPDATE items SET what = %s WHERE order_id = %s AND line %% 10 = 1", (text, item)),
        ]
        return next((statement, values) for bound, statement, values in choices if pick < bound)

    def _fresh(self) -> int:
        self.fresh += 1
        return self.fresh
