"""What a follower holds of a table's rows, where that is not the rows as they are: other columns, names or forms."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame

from cdc.columns.names import KafkaColumn
from cdc.columns.rows.digest import Digest, WriteDocuments, digest_of_copy, digest_of_rows
from cdc.columns.rows.documents import documents, key_documents, portions, rows_of
from cdc.columns.table_copy import TableCopy
from cdc.core.table import Table


@dataclass(frozen=True, slots=True)
class Held:
    """The `table` as which documents that `write` makes are read back. `name`: the same for the same documents.

    `identify`: makes the names of rows from their keys, as the follower stores them.
    """

    table: Table
    write: WriteDocuments
    name: str
    identify: WriteDocuments = key_documents


def digest_copy(copy: TableCopy, table: Table, held: Held | None) -> Digest:
    """The digest of a copy as the follower holds it."""
    return digest_of_copy(copy, table, held.write if held else documents)


def digest_rows(parts: Iterable[pa.Table], table: Table, held: Held | None) -> Digest:
    """The same of rows in this process."""
    return digest_of_rows(parts, table, held.write if held else documents)


def rows_as_held(copy: TableCopy, table: Table, held: Held) -> DataFrame:
    """A copy's rows as the follower holds them: written as it does, and read back."""
    texts = copy.map_parts(partial(_write, table=table, write=held.write), f"{KafkaColumn.VALUE} string")
    return rows_of(texts, held.table)


def _write(parts: Iterable[pa.Table], table: Table, write: WriteDocuments) -> Iterator[pa.RecordBatch]:
    for rows in chain.from_iterable(map(portions, parts)):
        yield pa.RecordBatch.from_arrays([write(rows, table)], names=[KafkaColumn.VALUE])
