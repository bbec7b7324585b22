"""A leader whose tables views are made of: customers with ten orders each, once or in several sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

from psycopg import sql

from tests.bench.ground import Ground
from tests.bench.world.parts import Parts
from tests.bench.world.source import SLICE, Source, Written

ORDERS_EACH = 10

_CUSTOMERS: LiteralString = "CREATE TABLE {} (id bigint PRIMARY KEY, name text NOT NULL)"
_ORDERS: LiteralString = (
    "CREATE TABLE {} (id bigint PRIMARY KEY, customer_id bigint NOT NULL, total numeric(12, 2) NOT NULL,"
    " placed_at timestamptz NOT NULL, writer integer NOT NULL, seq bigint NOT NULL)"
)
_TOUCH: LiteralString = (
    "INSERT INTO {0} VALUES (0, 1, 1.10, clock_timestamp(), 0, 1)"
    " ON CONFLICT (id) DO UPDATE SET total = {0}.total + 1, seq = {0}.seq + 1"
)
_BATCH: LiteralString = (
    "UPDATE {0} SET total = total + 1 WHERE id IN"
    " (SELECT id FROM (SELECT DISTINCT 1 + floor(random() * %(keys)s)::bigint AS id"
    " FROM generate_series(1, 2 * %(changes)s)) AS drawn LIMIT %(changes)s)"
)


@dataclass(frozen=True, slots=True)
class ShopTables:
    """A pair of tables, and what they are called."""

    suffix: str = ""

    @property
    def customers(self) -> str:
        return f"customers{self.suffix}"

    @property
    def orders(self) -> str:
        return f"orders{self.suffix}"

    @property
    def both(self) -> list[str]:
        return [self.customers, self.orders]


@dataclass(frozen=True, slots=True)
class Shop:
    """The database of a shop; `source` is the same, as other goals have it: its pace writes to the plain tables."""

    source: Source

    @classmethod
    def made(cls, parts: Parts, database: str) -> "Shop":
        """Make the database, without tables."""
        source = Source.made(parts, database)
        with source.connection() as connection:
            connection.execute(Path(__file__).with_suffix(".sql").read_bytes())
        return cls(source)

    def fill(self, tables: ShopTables, orders: int) -> None:
        """Make a pair of tables with so many orders, vacuumed and analysed like ones that have stood for a while."""
        with self.source.connection() as connection:
            connection.execute(sql.SQL(_CUSTOMERS).format(sql.Identifier(tables.customers)))
            connection.execute(sql.SQL(_ORDERS).format(sql.Identifier(tables.orders)))
            for first in range(1, orders + 1, SLICE):
                last = min(first + SLICE - 1, orders)
                values = (*tables.both, max(orders // ORDERS_EACH, 1), first, last)
                connection.execute("CALL shop_fill(%s, %s, %s, %s, %s)", values)
            for table in tables.both:
                connection.execute(sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier(table)))

    def touch(self, names: Sequence[str]) -> Written:
        """Change one order in each of these tables of orders, inserted where it is not there, in one transaction."""
        statements = [sql.SQL(_TOUCH).format(sql.Identifier(name)) for name in names]
        return self._in_one(statements, {})

    def batch(self, orders: str, keys: int, changes: int) -> Written:
        """Change so many random orders, in one transaction."""
        return self._in_one([sql.SQL(_BATCH).format(sql.Identifier(orders))], {"keys": keys, "changes": changes})

    def last_places(self, orders: str) -> dict[int, int]:
        """By writer, `touch` among them as 0, the highest place of an order that is still as that writer left it."""
        query = sql.SQL("SELECT writer, max(seq) FROM {} GROUP BY writer").format(sql.Identifier(orders))
        with self.source.connection() as connection:
            return dict(connection.execute(query).fetchall())

    def _in_one(self, statements: Sequence[sql.Composed], values: Mapping[str, int]) -> Written:
        with self.source.connection() as connection, connection.transaction():
            changes = sum(connection.execute(statement, values).rowcount for statement in statements)
            row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        assert row is not None
        return Written(row[0], changes)


def shop_of(ground: Ground, parts: Parts, database: str, orders: Mapping[ShopTables, int]) -> Shop:
    """A shop with these pairs of tables (to the number of orders)."""
    ground.say(f"{database}: {sum(orders.values()):,} orders")
    shop = Shop.made(parts, database)
    for tables, count in orders.items():
        shop.fill(tables, count)
    return shop
