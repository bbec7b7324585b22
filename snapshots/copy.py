"""The parallel copy: Spark tasks that each read one range of pages on the same snapshot.

Rows go from COPY through Arrow into Parquet and never become Python objects, so memory is flat in a table's size.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Row, SparkSession

from cdc.columns.spark_tasks import run_in_tasks
from cdc.core.copied_file import CopiedFile
from cdc.core.table import Table
from snapshots import copy_reader as rows
from snapshots.ranges import PageRange, Pages, page_ranges

Job = Callable[[], list[Row]]
Watch = Callable[[Job], list[Row]]
"""Runs a Spark job and gives its rows, telling somebody meanwhile how far it is."""


def run_unwatched(job: Job) -> list[Row]:
    return job()


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """Where readers connect, and the exported snapshot that they import; the address holds the password."""

    conninfo: str
    snapshot: str

    def __repr__(self) -> str:
        return f"SnapshotSource(snapshot={self.snapshot!r})"


class CopyWriter(Protocol):
    """Writes a part of a table's copy where a follower takes it in. It travels to workers, who all reach that place.

    Spark may run a task again: each call writes a file of its own, and one that nobody is told of is never taken in.
    """

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> CopiedFile: ...


def copy_table(
    spark: SparkSession,
    source: SnapshotSource,
    table: Table,
    pages: Pages,
    write: CopyWriter,
    watch: Watch = run_unwatched,
) -> list[CopiedFile]:
    """Copy a table, a file a task, by what `write` does with the rows of the table's Arrow schema.

    Files appear beside what is there already; they count for nothing until a follower takes them in.
    """
    tasks = copy_tasks(source, table, pages, spark.sparkContext.defaultParallelism)
    written = watch(run_in_tasks(spark, len(tasks), partial(_write_ranges, tasks=tasks, write=write), _COPIED).collect)
    return [CopiedFile(*(row[name] for name in _RESULT.names)) for row in written]


@dataclass(frozen=True, slots=True)
class CopyTask:
    """What one task reads: it travels to a worker, so everything in it is plain."""

    source: SnapshotSource
    table: Table
    pages: Sequence[PageRange]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The ranges as record batches of the table's Arrow schema; raises like `rows.batches`."""
        for each in self.pages:
            yield from rows.batches(self.table, each, self.source.conninfo, self.source.snapshot)


def copy_tasks(source: SnapshotSource, table: Table, pages: Pages, parallel: int) -> list[CopyTask]:
    """One task a share of the pages; together they read the table once."""
    return [CopyTask(source, table, each) for each in page_ranges(pages, parallel)]


_COPIED = "path string, bytes long, rows long, statistics string"
_RESULT = pa.schema([("path", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64()), ("statistics", pa.string())])


def _write_ranges(numbers: Iterable[int], tasks: Sequence[CopyTask], write: CopyWriter) -> Iterator[pa.RecordBatch]:
    for number in numbers:
        yield pa.RecordBatch.from_pylist([asdict(write(tasks[number].batches()))], _RESULT)
