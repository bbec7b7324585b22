"""A view's present rows are compared by their hashes: equal rows are not written again."""

from datetime import date

import pyarrow as pa
import pytest

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import ViewStoppedError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.views.refresh.row_hashes import compare, hash_rows

Record = dict[str, object]
VIEW = Table(
    TableName("shop", "card"),
    (
        Column("id", Kind.INTEGER),
        Column("day", Kind.DATE),
        Column("f", Kind.DOUBLE),
        Column("list", Kind.STRUCT, array=True, fields=(Column("n", Kind.INTEGER),)),
    ),
    ("id", "day"),
)


def rows(*values: Record) -> pa.Table:
    return pa.Table.from_pylist([dict(each) for each in values], arrow_schema(VIEW))


def row(id: int, day: int, f: float | None = 1.0, n: int | None = 1) -> Record:
    return {"id": id, "day": date(2026, 1, day), "f": f, "list": None if n is None else [{"n": n}, None]}


def test_only_rows_that_differ_are_written_and_gone_ones_deleted() -> None:
    old = rows(row(1, 1), row(1, 2), row(2, 1, float("nan")), row(3, 1, 0.0), row(4, 1, n=None), row(5, 1))
    new = rows(row(1, 1), row(1, 2, n=2), row(2, 1, float("nan")), row(3, 1, -0.0), row(4, 1, n=1), row(6, 1))
    found = compare(VIEW, hash_rows(old, VIEW), new)
    # zero has a sign, in a document too
    assert [(each["id"], each["day"].day) for each in found.rows.to_pylist()] == [(1, 2), (3, 1), (4, 1), (6, 1)]
    assert [(each["id"], each["day"].day) for each in found.gone.to_pylist()] == [(5, 1)]
    assert found.existed.num_rows == old.num_rows


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ([row(1, 1), row(2, 1), row(1, 1, 2.0)], "its key is not unique: 2 rows of the result have id = 1 and day"),
        ([{**row(1, 1), "id": None}], "its key column id is null in a row of the result"),
    ],
)
def test_a_wrong_key_stops_the_view(wrong: list[Record], told: str) -> None:
    with pytest.raises(ViewStoppedError, match=told):
        compare(VIEW, hash_rows(rows(), VIEW), rows(*wrong))
