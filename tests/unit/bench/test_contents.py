"""Contents are equal in any order, and differ when anything of a row does."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("duckdb", reason="the bench group is not installed")

from tests.bench.world.contents import differences, in_arrow, in_documents

Row = dict[str, Any]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("xid", pa.int64()),
        ("seq", pa.int64()),
        ("writer", pa.int32()),
        ("amount", pa.decimal128(12, 2)),
        ("note", pa.string()),
        ("written_at", pa.timestamp("us", "UTC")),
    ]
)
AT = datetime(2026, 11, 21, 22, 40, 22, 308181, UTC)


def row(key: int, **values: object) -> Row:
    fields = {"xid": 7, "seq": 1, "writer": 2, "amount": Decimal("1.10"), "note": "a", "written_at": AT}
    return {"id": key, **fields, **values}


def table(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


def found(first: pa.Table, second: pa.Table) -> list[str]:
    return differences("orders", in_arrow(first), in_arrow(second))


def test_order_does_not_matter() -> None:
    assert found(table(row(1), row(2, note=None)), table(row(2, note=None), row(1))) == []


@pytest.mark.parametrize(
    ("column", "value", "other"),
    [
        ("xid", 7, 8),
        ("amount", Decimal("1.10"), Decimal("1.11")),
        ("note", "a", None),
        ("written_at", AT, AT.replace(microsecond=308182)),
    ],
)
def test_values_that_changed_places_are_found(column: str, value: object, other: object) -> None:
    first = table(row(1, **{column: value}), row(2, **{column: other}))
    second = table(row(1, **{column: other}), row(2, **{column: value}))
    assert found(first, second) == [f"orders differs in {column}"]


def test_a_missing_row_is_found() -> None:
    assert found(table(row(1), row(2)), table(row(1)))[0] == "orders has 1 rows, the source 2"


def test_documents_hold_the_same() -> None:
    document = {**row(1), "amount": "1.10", "written_at": "2026-11-21T22:40:22.308181Z"}
    assert differences("the index", in_arrow(table(row(1))), in_documents([document])) == []
