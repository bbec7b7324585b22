"""Collapsing a DataFrame equals collapsing values: many histories in one frame, told apart by their key."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from cdc.columns.collapse import collapse
from cdc.columns.names import Changes, Net
from cdc.columns.spark_types import key_type, row_type
from cdc.core.change import UNCHANGED, Change, Delete, Insert, Key, Row, Truncate, Update
from cdc.core.collapse import Remove, Upsert
from cdc.core.collapse import collapse as collapse_values
from cdc.core.table import Column, Kind, Table, TableName
from tests.core.histories import Sent, histories

BEFORE: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": f"old {n}"} for n in range(3)}
CASES = Table(
    TableName("public", "cases"),
    (Column("case", Kind.INTEGER), Column("id", Kind.INTEGER), Column("small", Kind.INTEGER), Column("big", Kind.TEXT)),
    ("case", "id"),
)
SCHEMA = T.StructType(
    [
        T.StructField(Changes.RANK, T.LongType()),
        T.StructField(Changes.TOTAL_ORDER, T.LongType()),
        T.StructField(Changes.OP, T.StringType()),
        T.StructField(Changes.KEY, key_type(CASES)),
        T.StructField(Changes.ROW, row_type(CASES)),
        T.StructField(Changes.UNSENT, T.ArrayType(T.StringType())),
        T.StructField(Changes.MOVED_FROM, key_type(CASES)),
    ]
)


def without_what_truncate_took(changes: list[Change]) -> list[Change]:
    last = max((n for n, c in enumerate(changes) if isinstance(c, Truncate)), default=-1)
    return changes[last + 1 :]


def as_row(case: int, change: Change) -> tuple[object, ...]:
    order = (change.place.rank, change.place.total_order)
    match change:
        case Insert(key=key, row=row, moved_from=old):
            return (*order, "c", (case, *key), *_sent(case, row), None if old is None else (case, *old))
        case Update(key=key, row=row):
            return (*order, "u", (case, *key), *_sent(case, row), None)
        case Delete(key=key):
            return (*order, "d", (case, *key), None, None, None)
        case _:
            raise AssertionError(change)


def _sent(case: int, row: object) -> tuple[object, object]:
    assert isinstance(row, dict)
    unsent = [name for name, value in row.items() if value is UNCHANGED]
    return (case, *(None if v is UNCHANGED else v for v in row.values())), unsent


def collected(net: DataFrame) -> dict[int, dict[Key, object]]:
    found: dict[int, dict[Key, object]] = {}
    for row in net.collect():
        case, key = row[Net.KEY][0], (row[Net.KEY][1],)
        found.setdefault(case, {})[key] = Remove() if row[Net.REMOVED] else _upsert(row)
    return found


def _upsert(row: T.Row) -> Upsert:
    values = row[Net.ROW].asDict()
    values.pop("case")
    unsent = set(row[Net.UNSENT])
    base = row[Net.BASE]
    return Upsert({k: UNCHANGED if k in unsent else v for k, v in values.items()}, (base[1],) if base else None)


def comparable(effect: object) -> object:
    """A base says nothing where every value was sent."""
    if isinstance(effect, Upsert) and UNCHANGED not in effect.row.values():
        return Upsert(effect.row, None)
    return effect


@pytest.mark.parametrize("moves", [True])
@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
@given(cases=st.lists(histories(BEFORE), min_size=20, max_size=60))
def test_collapse_equals_the_model(spark: SparkSession, cases: list[list[Sent]], moves: bool) -> None:
    kept = {
        n: without_what_truncate_took([c for sent in history for c in sent.changes]) for n, history in enumerate(cases)
    }
    rows = [as_row(n, change) for n, changes in kept.items() for change in changes]
    net = collapse(spark.createDataFrame(rows, SCHEMA), CASES, moves=moves)
    expected = {
        n: {key: comparable(effect) for key, effect in collapse_values(changes).effects.items()}
        for n, changes in kept.items()
        if changes
    }
    actual = {n: {key: comparable(effect) for key, effect in effects.items()} for n, effects in collected(net).items()}
    assert actual == expected
