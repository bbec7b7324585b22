"""Differences of two tables are named with their columns, and cost no more than a few rows that move."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.rows.compare import (
    DIFFERING,
    EXTRA,
    MISSING,
    TWICE,
    KeyDifference,
    compare,
    find_columns,
    find_differences,
    hash_side,
)
from cdc.core.table import Column, Kind, Table, TableName

THINGS = Table(
    TableName("public", "things"),
    (Column("id", Kind.BIGINT), Column("a.b", Kind.BIGINT), Column("note", Kind.TEXT)),
    ("id",),
)
MANY = 2_000


def source_rows(spark: SparkSession) -> DataFrame:
    return spark.range(MANY).selectExpr("id", "id % 7 AS `a.b`", "'as it was' AS note")


def follower_rows(spark: SparkSession) -> DataFrame:
    """The same, but for five keys."""
    rows = (
        source_rows(spark)
        .where("id <> 5")
        .selectExpr(
            "id",
            "CASE WHEN id IN (3, 4) THEN -1 ELSE `a.b` END AS `a.b`",
            "CASE id WHEN 4 THEN NULL ELSE note END AS note",
        )
    )
    return rows.union(rows.where("id = 6")).union(spark.range(MANY, MANY + 1).selectExpr("id", "0", "'more'"))


@pytest.fixture
def differences(spark: SparkSession) -> Iterator[tuple[DataFrame, DataFrame, DataFrame]]:
    """The keys that differ, and both tables."""
    ours, theirs = source_rows(spark), follower_rows(spark)
    found = find_differences(hash_side(ours, THINGS).hashes, hash_side(theirs, THINGS).hashes).persist()
    assert found.count() == 5
    yield found, ours, theirs
    spark.catalog.clearCache()


def test_every_difference_is_named_with_its_columns(spark: SparkSession) -> None:
    ours, theirs = hash_side(source_rows(spark), THINGS), hash_side(follower_rows(spark), THINGS)
    found = compare(ours, theirs, THINGS, 10)
    assert (found.source_rows, found.follower_rows) == (MANY, MANY + 1)
    assert (found.missing, found.extra, found.differing, found.twice) == (1, 1, 2, 1)
    assert sorted(found.keys, key=lambda each: int(each.key["id"] or 0)) == [
        KeyDifference({"id": "3"}, DIFFERING, ("a.b",)),
        KeyDifference({"id": "4"}, DIFFERING, ("a.b", "note")),
        KeyDifference({"id": "5"}, MISSING),
        KeyDifference({"id": "6"}, TWICE),
        KeyDifference({"id": str(MANY)}, EXTRA),
    ]
    assert len(compare(ours, theirs, THINGS, 2).keys) == 2
    spark.catalog.clearCache()


def test_neither_table_moves_while_differing_keys_are_named(
    differences: tuple[DataFrame, DataFrame, DataFrame],
) -> None:
    named = find_columns(*differences, THINGS)
    assert len(named.collect()) == 5
    assert 0 < count_moved(named) < 100


def count_moved(frame: DataFrame) -> int:
    """How many rows the executed plan has sent to other tasks, by broadcasts and shuffles."""
    return _count_moved(frame._jdf.queryExecution().executedPlan())


def _count_moved(plan: Any) -> int:
    metrics, children = plan.metrics(), plan.children()
    counted = {"BroadcastExchange": "numOutputRows", "Exchange": "shuffleRecordsWritten"}.get(plan.nodeName())
    own = int(metrics.apply(counted).value()) if counted else 0
    return own + sum(_count_moved(children.apply(at)) for at in range(children.size()))
