"""Writes small copies from this process, in one transaction: a Spark job that is the first takes five seconds."""

from cdc.columns.rows.digest import SMALL_ROWS
from cdc.columns.rows.documents import portions
from cdc.columns.small_copies import as_small
from cdc.columns.table_copy import ReadableCopy, TableCopy
from cdc.core.table import Table
from cdc.log.clients.transactional_writer import TransactionalWriter
from cdc.log.settings import LogSettings
from cdc.sinks.latest import read
from cdc.sinks.latest.records import write_portion


def find_small(copy: TableCopy, log: LogSettings, topic: str) -> ReadableCopy | None:
    """The copy, if it is small, and so are all records that its topic has; None for others."""
    small = as_small(copy)
    return small if small is not None and read.count_records(log, topic) <= SMALL_ROWS else None


def write(writer: TransactionalWriter, topic: str, table: Table, copy: ReadableCopy, live: set[bytes]) -> None:
    """Write the rows of a copy, and tombstones for the `live` keys of the topic that it does not have."""
    parts = (rows for part in copy.read() for rows in portions(part))
    written = {key for rows in parts for key in write_portion(writer, topic, table, rows)}
    for key in live - written:
        writer.write(topic, key, None)
