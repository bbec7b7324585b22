"""Contents made comparable: rows, and for every column an order-free sum that binds each value to its key.

Numbers are multiplied with the key, both by remainders, so that values that changed places change the sum; a text is
hashed together with the key. Hashing every column took minutes for a table of ten million rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from psycopg import sql

from tests.bench.world.source import COLUMNS

_BOUND = "(id % 1000003 + 1) * (({0})::bigint % 1000000007)"
_WHOLE = ("id", "xid", "seq", "writer")
_POSTGRES: Mapping[str, str] = {
    **{column: _BOUND.format(column) for column in _WHOLE},
    "amount": _BOUND.format("amount * 100"),
    "note": "('x' || substr(md5(id::text || ':' || note), 1, 15))::bit(60)::bigint",
    "written_at": _BOUND.format("extract(epoch FROM written_at) * 1000000"),
}
_DUCKDB: Mapping[str, str] = {
    **_POSTGRES,
    "note": "('0x' || substr(md5(id::VARCHAR || ':' || note), 1, 15))::BIGINT",
    "written_at": _BOUND.format("epoch_us(written_at)"),
}
_DOCUMENTED = {"amount": pa.string(), "note": pa.string(), "written_at": pa.string()}


@dataclass(frozen=True, slots=True)
class Contents:
    """A table's rows, and a sum by column: equal when every key has the same values."""

    rows: int
    sums: Mapping[str, int]


def in_postgres(connection: "psycopg.Connection[Any]", table: str) -> Contents:
    """The table as the source has it."""
    query = sql.SQL(f"SELECT {select_sums(_POSTGRES)} FROM {{}}").format(sql.Identifier(table))
    row = connection.execute(query).fetchone()
    return to_contents(row, _POSTGRES)


def in_delta(folder: Path, version: int | None = None) -> Contents:
    """A Delta table at a version, or as it is now; by delta-rs, which honours deletion vectors here."""
    return in_arrow(delta_rows(folder, version))


def delta_rows(
    folder: Path, version: int | None = None, chosen: str = "rows", columns: Sequence[str] = COLUMNS
) -> pa.RecordBatchReader:
    """The rows of a Delta table, batch by batch; `chosen`: a query of some of its rows."""
    query = QueryBuilder().register("rows", DeltaTable(str(folder), version=version))
    return pa.RecordBatchReader.from_stream(query.execute(f"SELECT {', '.join(columns)} FROM {chosen}"))


def in_arrow(rows: "pa.RecordBatchReader | pa.Table") -> Contents:
    """Rows that come as Arrow."""
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        return _summed(connection)


def in_documents(documents: Iterable[Mapping[str, Any]]) -> Contents:
    """Rows that come as documents of an index: decimals are texts there, and times are ISO 8601."""
    schema = pa.schema([(column, _DOCUMENTED.get(column, pa.int64())) for column in COLUMNS])
    table = pa.Table.from_pylist([{column: document[column] for column in COLUMNS} for document in documents], schema)
    with duckdb.connect() as connection:
        connection.register("texts", table)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            "CREATE VIEW rows AS SELECT * REPLACE (CAST(amount AS DECIMAL(12, 2)) AS amount,"
            " CAST(written_at AS TIMESTAMPTZ) AS written_at) FROM texts"
        )
        return _summed(connection)


def differences(name: str, source: Contents, copy: Contents) -> list[str]:
    """Where a copy differs from the source, a sentence each."""
    found = [] if source.rows == copy.rows else [f"{name} has {copy.rows:,} rows, the source {source.rows:,}"]
    columns = [column for column, total in source.sums.items() if copy.sums[column] != total]
    return found + ([f"{name} differs in {', '.join(columns)}"] if columns else [])


def _summed(connection: "duckdb.DuckDBPyConnection") -> Contents:
    return to_contents(connection.execute(f"SELECT {select_sums(_DUCKDB)} FROM rows").fetchone(), _DUCKDB)


def select_sums(values: Mapping[str, str]) -> str:
    """What to select: the number of rows, then the sum of each column's value."""
    return ", ".join(["count(*)", *(f"coalesce(sum({value}), 0)" for value in values.values())])


def to_contents(row: Sequence[Any] | None, values: Mapping[str, str]) -> Contents:
    """Read the row that such a query gives."""
    assert row is not None
    return Contents(int(row[0]), dict(zip(values, map(int, row[1:]), strict=True)))
