"""The parallel copy: each Spark task reads one range of pages on the same snapshot.

Rows go from COPY through Arrow to Parquet and never become Python objects; memory does not grow with the table.
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
from cdc.snapshots import copy_reader as rows
from cdc.snapshots.ranges import PageRange, Pages, page_ranges

Job = Callable[[], list[Row]]
Watch = Callable[[Job], list[Row]]
"""Runs a Spark job and returns its rows, while it shows the job's progress."""


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """The readers' connection string, which has the password, and the exported snapshot that they import.

    `secret`: of hashed columns.
    """

    conninfo: str
    snapshot: str
    secret: bytes = b""

    # without the connection string and the secret: logs and tracebacks show values
    def __repr__(self) -> str:
        return f"SnapshotSource(snapshot={self.snapshot!r})"


class CopyWriter(Protocol):
    """Writes a part of a table's copy for a follower; picklable, since Spark's workers run it.

    Spark may run a task again, so each call writes a file of its own. A file whose name is not returned is never
    loaded.
    """

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> CopiedFile: ...


def copy_table(
    spark: SparkSession,
    source: SnapshotSource,
    table: Table,
    pages: Pages,
    write: CopyWriter,
    watch: Watch,
) -> list[CopiedFile]:
    """Copy a table: each task gives its rows (in the table's Arrow schema) to `write`, which makes a file.

    The files have no effect until a follower loads them.
    """
    tasks = copy_tasks(source, table, pages, spark.sparkContext.defaultParallelism)
    written = watch(run_in_tasks(spark, len(tasks), partial(_write_ranges, tasks=tasks, write=write), _COPIED).collect)
    return [CopiedFile(*row) for row in written]


def copy_in_process(source: SnapshotSource, table: Table, pages: Pages, write: CopyWriter) -> list[CopiedFile]:
    """Copy a table in the same way, without Spark: the first job of a session takes seconds."""
    return [write(task.batches()) for task in copy_tasks(source, table, pages, 1)]


@dataclass(frozen=True, slots=True)
class CopyTask:
    """The ranges of one task; picklable."""

    source: SnapshotSource
    table: Table
    pages: Sequence[PageRange]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the ranges as record batches of the table's Arrow schema; raises like `rows.batches`."""
        for page_range in self.pages:
            yield from rows.batches(
                self.table, page_range, self.source.conninfo, self.source.snapshot, self.source.secret
            )


def copy_tasks(source: SnapshotSource, table: Table, pages: Pages, parallel: int) -> list[CopyTask]:
    """Make one task for each share of the pages; together they read the table once."""
    return [CopyTask(source, table, share) for share in page_ranges(pages, parallel)]


_COPIED = "path string, bytes long, rows long, statistics string"
_RESULT = pa.schema([("path", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64()), ("statistics", pa.string())])


def _write_ranges(numbers: Iterable[int], tasks: Sequence[CopyTask], write: CopyWriter) -> Iterator[pa.RecordBatch]:
    for number in numbers:
        yield pa.RecordBatch.from_pylist([asdict(write(tasks[number].batches()))], _RESULT)
