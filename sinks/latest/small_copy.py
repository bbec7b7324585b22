"""Writes small copies from this process, in one transaction: a Spark job that is the first takes five seconds."""

import pyarrow as pa

from cdc.columns.rows.digest import SMALL_ROWS
from cdc.columns.rows.documents import documents, key_documents, portions
from cdc.columns.small_copies import as_small
from cdc.columns.table_copy import ReadableCopy, TableCopy
from cdc.core.table import Table
from cdc.log.clients.transactional_writer import TransactionalWriter
from cdc.log.settings import LogSettings
from cdc.sinks.latest import read


def find_small(copy: TableCopy, log: LogSettings, topic: str) -> ReadableCopy | None:
    """The copy, if it is small, and so are all records that its topic has; None for others."""
    small = as_small(copy)
    return small if small is not None and read.count_records(log, topic) <= SMALL_ROWS else None


def write(writer: TransactionalWriter, topic: str, table: Table, copy: ReadableCopy, live: set[bytes]) -> None:
    """Write the rows of a copy, and tombstones for the `live` keys of the topic that it does not have."""
    stale = set(live)
    for rows in copy.read():
        stale.difference_update(write_rows(writer, topic, table, rows))
    for key in stale:
        writer.write(topic, key, None)


def write_rows(writer: TransactionalWriter, topic: str, table: Table, rows: pa.Table) -> list[bytes]:
    """Write each row's document by the document of its key; returns the keys."""
    written = list[bytes]()
    for some in portions(rows):
        keys = [key.encode() for key in key_documents(some, table).to_pylist()]
        for key, value in zip(keys, documents(some, table).to_pylist(), strict=True):
            writer.write(topic, key, value.encode())
        written += keys
    return written
