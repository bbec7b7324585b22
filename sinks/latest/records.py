"""Rows of a table as records of a transaction: a row's document by the document of its key."""

import pyarrow as pa

from cdc.columns.rows.documents import documents, key_documents
from cdc.core.table import Table
from cdc.log.clients.transactional_writer import TransactionalWriter


def write_portion(writer: TransactionalWriter, topic: str, table: Table, rows: pa.Table) -> list[bytes]:
    """Write one of the `portions` of rows; returns their keys."""
    keys = [key.encode() for key in key_documents(rows, table).to_pylist()]
    for key, value in zip(keys, documents(rows, table).to_pylist(), strict=True):
        writer.write(topic, key, value.encode())
    return keys
