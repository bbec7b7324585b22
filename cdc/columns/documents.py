"""Rows as JSON text: one canonical form for the index, the latest log and whoever reads them."""

from pyspark.sql import Column as Col
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.columns.names import Feed, Message, within
from cdc.columns.spark_types import row_type
from cdc.core.table import Kind, Table

OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "dateFormat": "yyyy-MM-dd",
}
"""Every column is there, null or not; times have six digits and timestamps with a zone are UTC."""


def documents(feed: DataFrame, table: Table) -> DataFrame:
    """A `Feed` as text, columns KEY and VALUE of `Message`: the value is null where the key has no row any more."""
    value = F.when(F.col(Feed.ROW).isNotNull(), document(table))
    return feed.select(key_document(table).alias(Message.KEY), value.alias(Message.VALUE))


def rows_of(texts: DataFrame, table: Table) -> DataFrame:
    """Documents in a column VALUE in, the table's rows out, typed as `row_type` says."""
    row = texts.select(parsed(F.col(Message.VALUE), table).alias(Feed.ROW))
    return row.select(*(within(Feed.ROW, name).alias(name) for name in table.column_names))


def document(table: Table) -> Col:
    """ROW as JSON text: numerics as strings with all their digits, bytes in base64, the rest as JSON has it."""
    return F.to_json(_struct(table, Feed.ROW, table.column_names), OPTIONS)


def key_document(table: Table) -> Col:
    """KEY as JSON text, in the key's column order: the same key is always the same text."""
    return F.to_json(_struct(table, Feed.KEY, table.key), OPTIONS)


def parsed(text: Col, table: Table) -> Col:
    """A document read back: a struct of the table's columns, typed as `row_type` says."""
    schema = row_type(table)
    return F.from_json(text, schema, OPTIONS)


def _struct(table: Table, source: str, names: tuple[str, ...]) -> Col:
    kinds = {column.name: column.kind for column in table.columns}
    return F.struct(*(_exact(within(source, name), kinds[name]).alias(name) for name in names))


def _exact(value: Col, kind: Kind) -> Col:
    return value.cast("string") if kind is Kind.DECIMAL else value
