"""A table of the lake by readers that are not ours: what is verified is what others would see."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder

from cdc.columns.rows import digest as digests
from cdc.columns.rows.digest import Digest, digest_of_copy, digest_of_rows
from cdc.columns.table_copy import FrameCopy
from cdc.columns.values.arrow_types import arrow_schema, conform
from cdc.core.errors import PreconditionError
from cdc.core.table import Table
from sinks.lake.feed.feed import LakeFeed
from sinks.lake.layout import Lake


def digest(lake: Lake, feed: LakeFeed, table: Table) -> Digest:
    """The digest of a table at the newest cut: read by delta-rs where the table is small and lies in a folder, else by
    Spark, whose reader of Delta takes half a second of a core before the first row (two jobs of its own for the log).
    """
    folder, version = feed.place(table.name)
    # an object store's keys are given to Spark alone, and delta-rs takes a % in a path for an escape
    if lake.access is None and "%" not in folder:
        delta = DeltaTable(folder, version)
        if _packed_bytes(delta) <= digests.SMALL_BYTES:
            return digest_of_rows(_rows(delta, table), table)
    return digest_of_copy(FrameCopy(feed.rows(table), table), table)


def _packed_bytes(delta: DeltaTable) -> int:
    files = pa.table(delta.get_add_actions(flatten=True))
    return int(pc.sum(files["size_bytes"]).as_py() or 0)


def _rows(delta: DeltaTable, table: Table) -> Iterator[pa.Table]:
    found = pa.RecordBatchReader.from_stream(QueryBuilder().register("found", delta).execute("SELECT * FROM found"))
    # to `shaped` it would be one that is younger than the rows
    for name in table.column_names:
        if name not in found.schema.names:
            raise PreconditionError(
                f"{table.name} has no column {name} in the lake", "verify again once it is followed"
            )
    for batch in found:
        yield conform(pa.Table.from_batches([batch]), arrow_schema(table))
