"""What follows the lake takes in: whole rows by key, from Delta's change feed, where unsent values are resolved."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from cdc.columns.names import Feed, quoted
from cdc.columns.spark_types import key_type, row_type
from cdc.core.follower import Follower
from cdc.core.table import Table, TableName

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """The effect of one or more cuts: for every table that changed, columns of `Feed`, one row a key."""

    tables: Mapping[TableName, DataFrame]


class Readable(Protocol):
    """A follower whose tables can be read back, for verification."""

    def rows(self, table: Table) -> DataFrame:
        """The table as the follower holds it now: the table's columns, typed as `row_type` says."""


class FedFollower(Follower[DataFrame, FeedBatch], Readable, Protocol):
    """A follower behind the lake: it takes in `Feed` frames, and its rows can be read back and perhaps counted."""

    def close(self) -> None:
        """Let go of connections; the next call opens them again."""

    def written(self, table: TableName) -> int:
        """How often it has been written to for a table since that was made, not only what is seen: shows progress."""

    def count(self, table: TableName, *, exact: bool) -> int | None:
        """Its rows of a table; None when there is no such table, or unless `exact` where everything has to be read."""


def required(spark: SparkSession | None) -> SparkSession:
    """The session of a follower that was not opened only to be asked where it stands."""
    if spark is None:
        raise AssertionError("this follower was opened without Spark")
    return spark


def newest(change_feed: DataFrame, table: Table) -> DataFrame:
    """Delta's change feed of some versions in, the last state of every changed key out (`Feed`).

    A version that replaces a whole table has a key's old row as a delete and its new one as an insert: the row wins.
    """
    key = F.struct(*(F.col(quoted(name)) for name in table.key)).cast(key_type(table))
    row = F.struct(*(F.col(quoted(name)) for name in table.column_names)).cast(row_type(table))
    gone = F.col(CHANGE_TYPE) == "delete"
    last = Window.partitionBy(Feed.KEY).orderBy(F.desc(COMMIT_VERSION), "gone")
    return (
        change_feed.where(F.col(CHANGE_TYPE) != "update_preimage")
        .select(key.alias(Feed.KEY), F.when(~gone, row).alias(Feed.ROW), gone.alias("gone"), COMMIT_VERSION)
        .select("*", F.row_number().over(last).alias("nth"))
        .where("nth = 1")
        .select(*(F.col(name) for name in Feed))
    )


def copied(rows: DataFrame, table: Table) -> DataFrame:
    """A table's rows as a feed that puts every one of them."""
    key = F.struct(*(F.col(quoted(name)) for name in table.key)).cast(key_type(table))
    row = F.struct(*(F.col(quoted(name)) for name in table.column_names)).cast(row_type(table))
    return rows.select(key.alias(Feed.KEY), row.alias(Feed.ROW))
