"""The customer card of views/README.md: its statement in Spark's SQL and in Postgres', and its contents anywhere."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa

from tests.bench.world.contents import Contents, delta_rows, select_sums, to_contents
from tests.bench.world.derived.shop import ShopTables

SCHEMA = "shop"
PLAIN = ShopTables()
COLUMNS = ("id", "name", "orders", "spent", "list")

_CARD = (
    "SELECT c.id, c.name, count(o.id) AS orders, sum(o.total) AS spent, {list} AS list{more}"
    " FROM public.{customers} c LEFT JOIN public.{orders} o ON o.customer_id = c.id{where} GROUP BY c.id, c.name"
)
_LISTS = {
    "spark": "collect_list(struct(o.id, o.placed_at, o.total))",
    # in an order of its own: otherwise rows that did not change would differ
    "postgres": "array_agg(ROW(o.id, o.placed_at, o.total)::listed ORDER BY o.id)",
    "duckdb": "list(struct_pack(id := o.id, placed_at := o.placed_at, total := o.total))",
}

_MICROSECONDS = "(extract(epoch FROM e.placed_at) * 1000000)"
_BOUND = "(id % 1000003 + 1) * ({0})"
_ORDER = (
    f"coalesce((e.id % 1000003 + 1) * ((e.total * 100)::bigint % 1000003) + {_MICROSECONDS}::bigint % 1000000007, -1)"
)
_POSTGRES: Mapping[str, str] = {
    "id": "id",
    "name": "('x' || substr(md5(id::text || ':' || name), 1, 15))::bit(60)::bigint",
    "orders": _BOUND.format("orders"),
    "spent": _BOUND.format("coalesce((spent * 100)::bigint, -1) % 1000000007"),
    "list": _BOUND.format(f"(SELECT sum({_ORDER}) FROM unnest(list) AS e)"),
}
_DUCKDB: Mapping[str, str] = {
    **_POSTGRES,
    "name": "('0x' || substr(md5(id::VARCHAR || ':' || name), 1, 15))::BIGINT",
    "list": _BOUND.format(f"list_sum([{_ORDER.replace(_MICROSECONDS, 'epoch_us(e.placed_at)')} FOR e IN list])"),
}


def card(tables: ShopTables = PLAIN, *, engine: str = "spark", more: str = "", where: str = "") -> str:
    """The statement, in an engine's SQL; `more` columns, and a condition."""
    filtered = f" WHERE {where}" if where else ""
    names = {"customers": tables.customers, "orders": tables.orders}
    return _CARD.format(list=_LISTS[engine], more=f", {more}" if more else "", where=filtered, **names)


def without_schema(statement: str) -> str:
    """The statement over temporary views, which have no schema."""
    return statement.replace("public.", "")


def view_settings(statements: Mapping[str, str]) -> dict[str, Any]:
    """The block `views` of `cdc.yaml`: cards by the name of the view."""
    return {"views": {f"{SCHEMA}.{name}": {"key": ["id"], "sql": text} for name, text in statements.items()}}


def in_postgres(connection: "psycopg.Connection[Any]", relation: str) -> Contents:
    """Cards as Postgres has them: of a relation, or of a statement in brackets."""
    row = connection.execute(f"SELECT {select_sums(_POSTGRES)} FROM {relation} AS cards".encode()).fetchone()
    return to_contents(row, _POSTGRES)


def by_postgres(connection: "psycopg.Connection[Any]", tables: ShopTables = PLAIN) -> Contents:
    """What the statement gives in Postgres now."""
    return in_postgres(connection, f"({card(tables, engine='postgres')})")


def in_delta(folder: Path, version: int | None = None) -> Contents:
    """Cards in a Delta table, at a version or as it is now; by delta-rs, which honours deletion vectors here."""
    with duckdb.connect() as connection:
        connection.register("cards", delta_rows(folder, version, columns=COLUMNS))
        return _summed(connection, "cards")


def by_duckdb(customers: Path, orders: Path, versions: Sequence[int]) -> Contents:
    """What the statement gives over two Delta tables at these versions: for a side that has no view."""
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA public")
        connection.register("read_customers", delta_rows(customers, versions[0], columns=("id", "name")))
        ordered = ("id", "customer_id", "total", "placed_at")
        connection.register("read_orders", delta_rows(orders, versions[1], columns=ordered))
        for table in PLAIN.both:
            connection.execute(f"CREATE TABLE public.{table} AS SELECT * FROM read_{table}")
        return _summed(connection, f"({card(engine='duckdb')})")


def in_documents(documents: Iterable[Mapping[str, Any]]) -> Contents:
    """Cards as documents of an index: decimals are texts there, and times are ISO 8601."""
    listed = pa.list_(pa.struct([("id", pa.int64()), ("placed_at", pa.string()), ("total", pa.string())]))
    types = dict(zip(COLUMNS, (pa.int64(), pa.string(), pa.int64(), pa.string(), listed), strict=True))
    table = pa.Table.from_pylist(
        [{name: document.get(name) for name in COLUMNS} for document in documents], pa.schema(types)
    )
    with duckdb.connect() as connection:
        connection.register("texts", table)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            "CREATE VIEW cards AS SELECT * REPLACE (CAST(spent AS DECIMAL(22, 2)) AS spent, CAST(list AS"
            " STRUCT(id BIGINT, placed_at TIMESTAMPTZ, total DECIMAL(12, 2))[]) AS list) FROM texts"
        )
        return _summed(connection, "cards")


def added(parts: Iterable[Contents]) -> Contents:
    """Contents of cards that lie in several views."""
    known = list(parts)
    sums = {name: sum(part.sums[name] for part in known) for name in COLUMNS}
    return Contents(sum(part.rows for part in known), sums)


def _summed(connection: "duckdb.DuckDBPyConnection", relation: str) -> Contents:
    return to_contents(
        connection.execute(f"SELECT {select_sums(_DUCKDB)} FROM {relation} AS cards").fetchone(), _DUCKDB
    )
