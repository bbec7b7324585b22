"""Read a snapshot's live rows: the rows of its files minus their deletion vectors."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from cdc.columns.arrays import Integers
from cdc.columns.spark_tasks import run_in_tasks
from cdc.columns.table_copy import RowsTask
from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.table import Table
from cdc.sinks.lake.delta import deletion_vectors
from cdc.sinks.lake.delta.snapshot import DataFile
from cdc.sinks.lake.storage.base import Storage

PART_ROWS: Final = 50_000
"""Rows of a row group in memory at a time."""
SHARES_A_CORE: Final = 4
"""Tasks per core: a task that ends early leaves its core to the next."""
MIN_SHARE_BYTES: Final = 1024 * 1024
"""Smallest share in compressed bytes: a task costs some milliseconds."""


@dataclass(frozen=True, slots=True)
class Share:
    """Neighbouring row groups of one file: share `number` of `count` equal ones."""

    file: DataFile
    number: int = 0
    count: int = 1

    def groups(self, all_groups: int) -> range:
        """The share's row groups in a file that has `all_groups`."""
        return range(all_groups * self.number // self.count, all_groups * (self.number + 1) // self.count)


def live_rows(
    storage: Storage,
    share: Share,
    table: Table,
    columns: Sequence[str] | None = None,
    vector: BitMap | None = None,
) -> Iterator[pa.Table]:
    """Yield the live rows of a share in file order, in parts of the table's Arrow schema or these columns of it.

    `vector`: the file's deletion vector, if it is loaded already.
    """
    file = pq.ParquetFile(storage.open(share.file.path), pre_buffer=True)
    groups = share.groups(file.num_row_groups)
    # shares go by bytes: a file may have fewer row groups than shares
    if not groups:
        return
    names, whole = list(table.column_names if columns is None else columns), arrow_schema(table)
    gone, schema = _dead_rows(storage, share.file, vector), pa.schema([whole.field(name) for name in names])
    start = sum(file.metadata.row_group(group).num_rows for group in range(groups.start))
    # one group at a time: a single call for several would hold all of them until the end
    batches = (file.iter_batches(PART_ROWS, [group], names) for group in groups)
    for batch in chain.from_iterable(batches):
        yield _without(conform(pa.Table.from_batches([batch]), schema), gone, start)
        start += len(batch)


def _dead_rows(storage: Storage, file: DataFile, vector: BitMap | None) -> Integers:
    """The file's deleted row numbers, ascending."""
    if vector is None and file.vector:
        vector = deletion_vectors.read(file.vector, storage)
    return np.asarray(vector.to_array() if vector else [], np.int64)


def _without(rows: pa.Table, gone: Integers, start: int) -> pa.Table:
    """Drop the deleted ones of rows that begin at row number `start` of their file."""
    # most parts of a file have no deleted row
    first, last = np.searchsorted(gone, [start, start + rows.num_rows])
    if first == last:
        return rows
    live = np.ones(rows.num_rows, np.bool_)
    live[gone[first:last] - start] = False
    return rows.filter(pa.array(live))


@dataclass(frozen=True, slots=True)
class LakeCopy:
    """A `TableCopy` of a table's files, read by Spark's tasks directly.

    Spark's own Delta reader would pass rows from the JVM to Python, and its first rows come seconds later.
    """

    spark: SparkSession
    table: Table
    storage: Storage
    files: Sequence[DataFile]

    def map_parts(self, task: RowsTask, schema: str | StructType) -> DataFrame:
        """Run the task on every share, as a Spark frame of this schema."""
        shares = split_files(self.files, self.spark.sparkContext.defaultParallelism * SHARES_A_CORE)
        read = partial(_read, shares=shares, storage=self.storage, table=self.table, task=task)
        return run_in_tasks(self.spark, len(shares), read, schema)

    def read(self) -> Iterator[pa.Table]:
        """The rows, in this process, in parts of the table's Arrow schema."""
        for file in self.files:
            yield from live_rows(self.storage, Share(file), self.table)

    @property
    def row_count(self) -> int:
        return sum(file.live_rows for file in self.files)

    @property
    def file_bytes(self) -> int:
        return sum(file.size for file in self.files)


def split_files(files: Iterable[DataFile], tasks: int) -> list[Share]:
    """Split files into about `tasks` shares of equal size, and up to one more per file."""
    files = [*files]
    # compressed sizes: the log knows no others
    size = max(sum(file.size for file in files) // tasks, MIN_SHARE_BYTES)
    counts = [max(-(-file.size // size), 1) for file in files]
    return [Share(file, n, count) for file, count in zip(files, counts, strict=True) for n in range(count)]


def _read(
    numbers: Iterable[int], shares: Sequence[Share], storage: Storage, table: Table, task: RowsTask
) -> Iterable[pa.RecordBatch]:
    return task(chain.from_iterable(live_rows(storage, shares[number], table) for number in numbers))
