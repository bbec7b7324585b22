"""Rows as JSON documents: one canonical form for the search index, the latest topics and digests.

Documents are built column by column: a document is the join of its columns' texts.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.columns.names import KafkaColumn, within
from cdc.columns.table_copy import TableCopy
from cdc.columns.types.registry import write_objects
from cdc.columns.types.spark_types import row_type
from cdc.core.table import Table

_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "dateFormat": "yyyy-MM-dd",
}
"""Options for Spark to read these documents."""

LONGEST_SHOWN: Final = 80
"""Characters of a key's value in a message."""

PORTION_ROWS: Final = 50_000
PORTION_BYTES: Final = 64 * 1024 * 1024
"""Rows and bytes of one array of documents: Arrow's string arrays end at 2 GiB."""


def portions(rows: pa.Table) -> Iterator[pa.Table]:
    """Cut rows into slices that fit into one array of documents, in order."""
    # at least one: a single row may be larger than a portion
    size = max(1, min(PORTION_ROWS, PORTION_BYTES * max(rows.num_rows, 1) // max(rows.nbytes, 1)))
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


def documents_of(copy: TableCopy, table: Table) -> DataFrame:
    """Convert a copy to a frame of key documents and documents: columns KEY and VALUE of `KafkaColumn`, strings."""
    return copy.map_parts(partial(_documents_of, table=table), f"{KafkaColumn.KEY} string, {KafkaColumn.VALUE} string")


def rows_of(texts: DataFrame, table: Table) -> DataFrame:
    """Parse documents in a column VALUE; returns the table's rows, with the types of `row_type`."""
    row = texts.select(F.from_json(F.col(KafkaColumn.VALUE), row_type(table), _OPTIONS).alias("row"))
    return row.select(*(within("row", name).alias(name) for name in table.column_names))


def _documents_of(parts: Iterable[pa.Table], table: Table) -> Iterator[pa.RecordBatch]:
    for rows in chain.from_iterable(map(portions, parts)):
        texts = [key_documents(rows, table), documents(rows, table)]
        yield pa.RecordBatch.from_arrays(texts, names=[KafkaColumn.KEY, KafkaColumn.VALUE])


def documents(rows: pa.Table | pa.RecordBatch, table: Table) -> pa.Array:
    """Write each row as JSON: numerics as strings with all digits, bytes in base64, times with six digits."""
    return write_objects(rows, table.columns)


def key_documents(rows: pa.Table | pa.RecordBatch, table: Table) -> pa.Array:
    """Write each row's key as JSON, in the key's column order: equal keys have equal texts.

    It is the id of a document in the index, and the key by which Kafka compacts a latest topic.
    """
    return write_objects(rows, table.key_columns)


def describe_key(document: str | bytes, key: Sequence[str]) -> str:
    """Describe a row by its key, `id = 7 and name = x`; `document` is its document or its key's."""
    values = json.loads(document)
    return " and ".join(f"{name} = {_format_value(values[name])}" for name in key)


def _format_value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # a user's text may hold control characters, and a message goes to terminals and logs
    return (text if text.isprintable() else repr(text))[:LONGEST_SHOWN]
