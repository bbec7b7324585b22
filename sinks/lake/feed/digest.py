"""A table's digest as other readers of Delta compute it: verification checks their view."""

from collections.abc import Callable
from functools import partial
from math import inf

from pyspark.sql import DataFrame

from cdc.columns.rows import digest as digests
from cdc.columns.rows.digest import Digest, digest_of_copy, digest_of_rows
from cdc.columns.rows.held import Held, digest_copy, digest_rows
from cdc.columns.table_copy import FrameCopy
from cdc.core.table import Table
from cdc.sinks.lake.delta.scan import LakeCopy
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.feed.frames import reads_by_delta
from cdc.sinks.lake.feed.small_tables import read_small
from cdc.sinks.lake.layout import Lake


def compute_digest(lake: Lake, feed: LakeFeed, table: Table) -> Digest:
    """The digest of a table as it stands at the newest cut."""
    version = feed.stand(table.name).versions[str(table.name)]
    return digest_of_version(lake, table, version, partial(feed.rows, table))


def digest_of_version(lake: Lake, table: Table, version: int, open_frame: Callable[[], DataFrame]) -> Digest:
    """The digest of a table at a version: of a small one by delta-rs, of others by Spark, as the frame."""
    # where Spark has no reader of its own, delta-rs has all to read
    most = digests.IN_PROCESS * digests.SMALL_BYTES if reads_by_delta(lake) else inf
    rows = read_small(lake, table, version, most)
    if rows is not None:
        return digest_of_rows(rows, table)
    return digest_of_copy(FrameCopy(open_frame(), table), table)


def digest_of_files(copy: LakeCopy, held: Held | None = None) -> Digest:
    """The digest of a table's rows in these files: of few in this process, which is faster than a Spark job."""
    if sum(file.size for file in copy.files) <= digests.SMALL_BYTES:
        return digest_rows(copy.read(), copy.table, held)
    return digest_copy(copy, copy.table, held)
