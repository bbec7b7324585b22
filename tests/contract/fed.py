"""What a follower behind the lake is given: the change feed that Delta would have, made from the model's changes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.feed import FeedBatch, FeedRows
from cdc.columns.spark_tasks import run_in_tasks
from cdc.columns.table_copy import RowsTask
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.position import Bookmark
from cdc.core.table import Table, TableName
from cdc.core.transaction import TransactionEnd
from tests.contract.followers import TABLES
from tests.contract.memory import ChangesInMemory
from tests.support.model import Change, Key, Row, Truncate, apply


@dataclass(frozen=True, slots=True)
class HeldCopy:
    """A `Copy` of rows in memory, which its tasks get each a part of."""

    spark: SparkSession
    rows: pa.Table
    tasks: int = 2

    def map_parts(self, task: RowsTask, schema: str) -> DataFrame:
        size = -(-len(self.rows) // self.tasks)
        parts = [self.rows.slice(number * size, size) for number in range(self.tasks)]
        return run_in_tasks(self.spark, self.tasks, partial(_own, parts=parts, task=task), schema)


@dataclass(frozen=True, slots=True)
class SmallCopy:
    """A `ReadableCopy` of few rows, which no Spark job may read."""

    rows: pa.Table
    file_bytes: int = 0

    @classmethod
    def of(cls, table: Table, rows: Mapping[Key, Row]) -> Self:
        return cls(pa.Table.from_pylist([dict(row) for row in rows.values()], arrow_schema(table)))

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def read(self) -> Iterator[pa.Table]:
        # in parts, one of them empty, as files have them
        yield self.rows.slice(0, 2)
        yield self.rows.slice(0, 0)
        yield self.rows.slice(2)

    def map_parts(self, *_: object) -> NoReturn:
        raise AssertionError("no Spark job is needed for so few rows")


def _own(numbers: Iterable[int], parts: Sequence[pa.Table], task: RowsTask) -> Iterable[pa.RecordBatch]:
    return task(parts[number] for number in numbers)


def copy_of(spark: SparkSession, table: Table, rows: Mapping[Key, Row]) -> HeldCopy:
    """Rows as a copy."""
    return HeldCopy(spark, pa.Table.from_pylist([dict(row) for row in rows.values()], arrow_schema(table)))


def copy_of_frame(frame: DataFrame, table: Table) -> HeldCopy:
    """A frame's rows as a copy."""
    return HeldCopy(frame.sparkSession, frame.toArrow().cast(arrow_schema(table)))


def changed(table: Table, states: Mapping[Key, Row | None]) -> list[FeedRows]:
    """What keys have become; None where the key has no row."""
    schema = arrow_schema(table)
    there = [dict(row) for row in states.values() if row is not None]
    gone = [dict(zip(table.key, key, strict=True)) for key, row in states.items() if row is None]
    keys = pa.schema([schema.field(name) for name in table.key])
    return [FeedRows(pa.Table.from_pylist(there, schema), pa.Table.from_pylist(gone, keys))]


def keyed(rows: DataFrame, table: Table) -> dict[Key, Row]:
    """Rows of a follower by key; fails when a key is there twice."""
    found = rows.collect()
    by_key: dict[Key, Row] = {tuple(row[k] for k in table.key): row.asDict() for row in found}
    assert len(by_key) == len(found), "a key is there twice"
    return by_key


class Lake:
    """The lake that the follower stands behind: its copies, and every change that it was brought."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._copies: dict[TableName, tuple[Mapping[Key, Row], Bookmark]] = {}
        self._ends: dict[int, TransactionEnd] = {}
        self._changes: dict[int, list[Change]] = {}

    def copy(self, table: Table, rows: Mapping[Key, Row], bookmark: Bookmark) -> HeldCopy:
        self._copies[table.name] = (rows, bookmark)
        return copy_of(self._spark, table, rows)

    def batch(self, changes: ChangesInMemory) -> FeedBatch:
        """The net effect of a batch; the rows are those at its end."""
        self._ends |= {end.offset: end for end in changes.ends}
        self._changes |= {
            end.offset: [change for change in changes.changes if change.place.rank == end.offset]
            for end in changes.ends
        }
        ranks = [end.offset for end in changes.ends]
        states = {table: self._net(table.name, ranks) for table in TABLES if table.name in self._copies}
        return FeedBatch(
            {table.name: changed(table, net) for table, net in states.items() if net},
        )

    def _net(self, table: TableName, ranks: list[int]) -> dict[Key, Row | None]:
        changed: set[Key] = set()
        for rank in ranks:
            mine = [change for change in self._changes[rank] if change.table == table]
            changed |= {change.key for change in mine if not isinstance(change, Truncate)}
            if any(isinstance(change, Truncate) for change in mine):
                changed |= self._rows(table, rank - 1).keys()
        rows = self._rows(table, ranks[-1])
        return {key: rows.get(key) for key in sorted(changed)}

    def _rows(self, table: TableName, rank: int) -> dict[Key, Row]:
        """The table as the lake has it at a rank: at least its copy."""
        copy, bookmark = self._copies[table]
        later = (r for r in sorted(self._changes) if r <= rank and not bookmark.covers(self._ends[r].lsn))
        return apply(copy, [change for r in later for change in self._changes[r] if change.table == table])
