"""Column names, once, and names as Spark SQL reads them."""

from enum import StrEnum

from pyspark.sql import Column as Col
from pyspark.sql import functions as F


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


def quoted(name: str) -> str:
    """One identifier as Spark SQL reads it, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def within(struct: str, name: str) -> Col:
    """The field `name` of the struct column `struct`."""
    return F.col(struct).getField(name)
