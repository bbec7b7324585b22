"""A table's digest as other readers of Delta compute it: verification checks their view."""

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
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.layout import Lake


def compute_digest(lake: Lake, feed: LakeFeed, table: Table) -> Digest:
    """The digest of a table at the newest cut.

    delta-rs reads small tables in folders, Spark all others: its Delta reader takes half a second of a core before the
    first row (two jobs for the log).
    """
    folder, version = feed.locate(table.name)
    # only Spark has an object store's keys, and delta-rs decodes a % in a path
    if lake.access is None and "%" not in folder:
        delta = DeltaTable(folder, version)
        if _file_bytes(delta) <= digests.SMALL_BYTES:
            return digest_of_rows(_read_rows(delta, table), table)
    return digest_of_copy(FrameCopy(feed.rows(table), table), table)


def _file_bytes(delta: DeltaTable) -> int:
    files = pa.table(delta.get_add_actions(flatten=True))
    return int(pc.sum(files["size_bytes"]).as_py() or 0)


def _read_rows(delta: DeltaTable, table: Table) -> Iterator[pa.Table]:
    reader = pa.RecordBatchReader.from_stream(QueryBuilder().register("found", delta).execute("SELECT * FROM found"))
    # `conform` would fill it with nulls, as for rows older than the column
    for name in table.column_names:
        if name not in reader.schema.names:
            raise PreconditionError(
                f"{table.name} has no column {name} in the lake", "verify again once it is followed"
            )
    for batch in reader:
        yield conform(pa.Table.from_batches([batch]), arrow_schema(table))
