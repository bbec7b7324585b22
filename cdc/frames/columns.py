"""Column names, once; and the Spark type of every kind of column."""

from enum import StrEnum

from pyspark.sql import Column as Col
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc.core.table import Column, Kind, Table


class Message(StrEnum):
    """Columns of Spark's Kafka source (with `includeHeaders`)."""

    KEY = "key"
    VALUE = "value"
    TOPIC = "topic"
    PARTITION = "partition"
    OFFSET = "offset"
    HEADERS = "headers"


class Changes(StrEnum):
    """Columns of decoded changes of one table.

    `op` is Debezium's letter (c, u, d, t); `key` and `row` are structs of the table's columns; `unsent` names the
    columns whose TOAST value was not sent; `moved_from` is the key that a create's row had before; `rank` is the
    offset of the transaction's END; `refusal` says why a message is no change, null for a change.
    """

    TX_ID = "tx_id"
    RANK = "rank"
    TOTAL_ORDER = "total_order"
    OP = "op"
    KEY = "key"
    ROW = "row"
    UNSENT = "unsent"
    MOVED_FROM = "moved_from"
    REFUSAL = "refusal"


class Net(StrEnum):
    """Columns of a batch's net effect, one row a key.

    `removed`: the key ends without a row. `existed`: its row was there before the batch. `unsent` names the columns of
    `row` whose value is that of `base`'s row before the batch (null: of none).
    """

    KEY = "key"
    ROW = "row"
    REMOVED = "removed"
    EXISTED = "existed"
    UNSENT = "unsent"
    BASE = "base"


class Feed(StrEnum):
    """Columns of what follows Delta: whole rows by key, null where the key has no row any more."""

    KEY = "key"
    ROW = "row"


_SPARK_TYPES: dict[Kind, T.DataType] = {
    Kind.BOOLEAN: T.BooleanType(),
    Kind.SMALLINT: T.ShortType(),
    Kind.INTEGER: T.IntegerType(),
    Kind.BIGINT: T.LongType(),
    Kind.REAL: T.FloatType(),
    Kind.DOUBLE: T.DoubleType(),
    Kind.BYTES: T.BinaryType(),
    Kind.DATE: T.DateType(),
    Kind.TIMESTAMP: T.TimestampNTZType(),
    Kind.TIMESTAMPTZ: T.TimestampType(),
}

TOASTABLE = frozenset({Kind.TEXT, Kind.JSON, Kind.BYTES, Kind.NUMERIC, Kind.DECIMAL})
"""Kinds of variable width: only they can be stored out of line (Postgres manual, "TOAST")."""


def spark_type(column: Column) -> T.DataType:
    """The type a follower's table has for this column; kinds without one of their own are text."""
    if column.kind is Kind.DECIMAL:
        return T.DecimalType(column.precision, column.scale)
    return _SPARK_TYPES.get(column.kind, T.StringType())


def row_type(table: Table) -> T.StructType:
    return T.StructType([T.StructField(c.name, spark_type(c)) for c in table.columns])


def key_type(table: Table) -> T.StructType:
    return T.StructType([T.StructField(c.name, spark_type(c)) for c in table.key_columns])


def quoted(name: str) -> str:
    """One identifier as Spark SQL reads it, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def within(struct: str, name: str) -> Col:
    """The field `name` of the struct column `struct`."""
    return F.col(struct).getField(name)
