"""The parallel copy: Spark tasks that each read one range of pages on the same snapshot.

Rows go from COPY through Arrow into Parquet and never become Python objects, so memory is flat in a table's size.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Row, SparkSession

from cdc.columns.arrow_types import arrow_schema
from cdc.core.copied_file import CopiedFile
from cdc.core.table import Table
from snapshots import rows
from snapshots.ranges import PageRange, page_ranges

ROW_GROUP_ROWS = 131_072

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


def copy_table(
    spark: SparkSession,
    source: SnapshotSource,
    table: Table,
    pages: int,
    folder: str,
    watch: Watch = run_unwatched,
) -> list[CopiedFile]:
    """Copy a table into Parquet files in `folder`, a path that every worker can write.

    Files appear in it beside what is there already; they count for nothing until a follower takes them in.
    """
    tasks = copy_tasks(source, table, pages, spark.sparkContext.defaultParallelism, folder)
    frame = spark.createDataFrame([(n,) for n in range(len(tasks))], "task int").repartitionByRange(len(tasks), "task")
    written = watch(frame.mapInArrow(_reader(tasks), "path string, bytes long, rows long").collect)
    return [CopiedFile(row["path"], row["bytes"], row["rows"]) for row in written]


@dataclass(frozen=True, slots=True)
class CopyTask:
    """What one task needs: it travels to a worker, so everything in it is plain."""

    source: SnapshotSource
    table: Table
    pages: PageRange
    folder: str

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The range as record batches of the table's Arrow schema; raises like `rows.batches`."""
        return rows.batches(self.table, self.pages, self.source.conninfo, self.source.snapshot)


def copy_tasks(source: SnapshotSource, table: Table, pages: int, parallel: int, folder: str) -> list[CopyTask]:
    """One task a range of pages; together they read the table once."""
    return [CopyTask(source, table, each, folder) for each in page_ranges(table.name, pages, parallel)]


def _reader(tasks: Sequence[CopyTask]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("task").to_pylist():
                yield pa.RecordBatch.from_pylist([_write(tasks[number])], _RESULT)

    return read


_RESULT = pa.schema([("path", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64())])


def _write(task: CopyTask) -> dict[str, object]:
    import pyarrow.parquet as pq
    from pyarrow import fs

    schema = arrow_schema(task.table)
    filesystem, folder = fs.FileSystem.from_uri(task.folder)
    filesystem.create_dir(folder, recursive=True)
    name = f"copy-{uuid4()}.parquet"
    path = str(PurePosixPath(folder) / name)
    count = 0
    with pq.ParquetWriter(path, schema, filesystem=filesystem, compression="snappy") as writer:
        for batch in task.batches():
            writer.write_batch(batch, row_group_size=ROW_GROUP_ROWS)
            count += batch.num_rows
    return {"path": name, "bytes": filesystem.get_file_info(path).size, "rows": count}
