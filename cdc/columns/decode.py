"""Messages in, changes out: Debezium's envelope read by the table's own columns.

Total: every message but a tombstone becomes one row, a change or a refusal with its reason. `from_json` alone turns
what it does not understand into null, so every value is read as text first and cast afterwards: text that is there and
has no value after the cast is a refusal.
"""

import base64

from pyspark.sql import Column as Col
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc.columns.names import Changes, Message, within
from cdc.columns.spark_types import TOASTABLE, key_type, row_type, spark_type
from cdc.core.table import Column, Kind, Table

OLD_KEY_HEADER = "__debezium.oldkey"
"""On the create that a changed key causes: the key as it was (Debezium, "Primary key updates")."""

RAW = {"raw_key": Message.KEY, "raw_value": Message.VALUE}
"""What is kept of a message that is no change; null for a change."""

NOT_NUMBERS = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
"""What Debezium writes for a numeric that is no number, and what Postgres does."""

MICROS_A_SECOND = 1_000_000
POSTGRES_DAYS = (-2_440_953, 2_145_040_000)
POSTGRES_MICROS = (-210_900_000_000_000_000, 9_223_371_000_000_000_000)
"""From 4713 BC on; what lies beyond is infinity, or has overflowed on its way (since 1970)."""


def decode(messages: DataFrame, table: Table, placeholder: str) -> DataFrame:
    """Decode messages of one table's topic (columns of `Message`, headers included) to `Changes`.

    `placeholder` is the connector's `unavailable.value.placeholder`. Topic, partition, offset, and the raw key and
    value of refusals, stay beside the change.
    """
    raw = messages.where(F.col(Message.VALUE).isNotNull()).select(
        *(F.col(name) for name in (Message.TOPIC, Message.PARTITION, Message.OFFSET)),
        *(F.col(source).alias(name) for name, source in RAW.items()),
        F.from_json(F.col(Message.VALUE).cast("string"), _envelope(table)).alias("e"),
        F.from_json(F.col(Message.KEY).cast("string"), _texts(table.key)).alias("k"),
        F.from_json(_old_key(), _texts(table.key)).alias("o"),
    )
    judged = raw.select("*", *_order(), *_content(table, placeholder)).select(
        "*", _refusal(table, placeholder).alias(Changes.REFUSAL)
    )
    refused = F.col(Changes.REFUSAL).isNotNull()
    return judged.drop("e", "k", "o").withColumns({name: F.when(refused, F.col(name)) for name in RAW})


def changes_only(decoded: DataFrame) -> DataFrame:
    """Decoded messages without the refusals, and without what only a refusal needs."""
    return decoded.where(F.col(Changes.REFUSAL).isNull()).drop(*RAW)


def _texts(names: tuple[str, ...]) -> T.StructType:
    return T.StructType([T.StructField(name, T.StringType()) for name in names])


def _envelope(table: Table) -> T.StructType:
    transaction = T.StructType([T.StructField("total_order", T.LongType())])
    source = T.StructType([T.StructField("txId", T.LongType())])
    return T.StructType(
        [
            T.StructField("op", T.StringType()),
            T.StructField("source", source),
            T.StructField("transaction", transaction),
            T.StructField("after", T.MapType(T.StringType(), T.StringType())),
        ]
    )


def _old_key() -> Col:
    matching = F.filter(F.col(Message.HEADERS), lambda header: header["key"] == OLD_KEY_HEADER)
    return F.get(matching, F.lit(0))["value"].cast("string")


def _order() -> list[Col]:
    return [
        F.col("e.source.txId").alias(Changes.TX_ID),
        F.col("e.transaction.total_order").alias(Changes.TOTAL_ORDER),
        F.col("e.op").alias(Changes.OP),
    ]


def _content(table: Table, placeholder: str) -> list[Col]:
    key = F.struct(*(_value(within("k", c.name), c).alias(c.name) for c in table.key_columns))
    old = F.struct(*(_value(within("o", c.name), c).alias(c.name) for c in table.key_columns))
    after = F.struct(*(_sent_value(c, placeholder).alias(c.name) for c in table.columns))
    has_row = F.col("e.after").isNotNull()
    unsent = F.array_compact(F.array(*(F.when(_is_unsent(c, placeholder), F.lit(c.name)) for c in _toastable(table))))
    return [
        F.when(F.col("e.op") != "t", key).cast(key_type(table)).alias(Changes.KEY),
        F.when(has_row, after).cast(row_type(table)).alias(Changes.ROW),
        F.when(has_row, unsent).cast("array<string>").alias(Changes.UNSENT),
        F.when(F.col("o").isNotNull() & (F.col("e.op") == "c"), old).cast(key_type(table)).alias(Changes.MOVED_FROM),
    ]


def _toastable(table: Table) -> list[Column]:
    return [c for c in table.columns if c.kind in TOASTABLE and c.name not in table.key]


def _is_unsent(column: Column, placeholder: str) -> Col:
    sent_as = base64.b64encode(placeholder.encode()).decode() if column.kind is Kind.BYTES else placeholder
    return within("e.after", column.name) == F.lit(sent_as)


def _sent_value(column: Column, placeholder: str) -> Col:
    text = within("e.after", column.name)
    if column.kind not in TOASTABLE:
        return _value(text, column)
    return _value(F.when(~_is_unsent(column, placeholder), text), column)


def _value(text: Col, column: Column) -> Col:
    """The value that Debezium wrote as `text`; null where it is none."""
    match column.kind:
        case Kind.BYTES:
            return F.try_to_binary(text, F.lit("base64"))
        case Kind.DATE:
            days = text.try_cast("int")
            return F.when(days.between(*POSTGRES_DAYS), F.date_from_unix_date(days))
        case Kind.TIMESTAMP:
            micros = text.try_cast("long")
            return F.when(micros.between(*POSTGRES_MICROS), F.timestamp_micros(micros)).cast("timestamp_ntz")
        case Kind.NUMERIC:
            return F.coalesce(*(F.when(text == sent, F.lit(value)) for sent, value in NOT_NUMBERS.items()), text)
        case Kind.TIME:
            return _time_of_day(text.try_cast("long"))
        case _:
            return text.try_cast(spark_type(column))


def _time_of_day(micros: Col) -> Col:
    seconds = (micros / MICROS_A_SECOND).cast("long")
    text = F.format_string(
        "%02d:%02d:%02d.%06d",
        (seconds / 3600).cast("long"),
        (seconds / 60).cast("long") % 60,
        seconds % 60,
        micros % MICROS_A_SECOND,
    )
    return F.when(micros.isNotNull(), text)


def _refusal(table: Table, placeholder: str) -> Col:
    """The first reason why the message is no change, null when it is one."""
    op, has_row = F.col(Changes.OP), F.col("e.after").isNotNull()
    reasons = [
        F.when(F.col(Changes.TX_ID).isNull() | F.col(Changes.TOTAL_ORDER).isNull(), F.lit("no change event")),
        F.when(op.isNull() | ~op.isin("c", "u", "d", "t"), F.lit("unknown operation")),
        F.when(op.isin("c", "u") & ~has_row, F.lit("no row")),
        _other_columns(table),
        *(_bad_key(column) for column in table.key_columns),
        *(_bad_value(column, placeholder) for column in table.columns),
    ]
    return F.coalesce(*reasons)


def _other_columns(table: Table) -> Col:
    """A row of other columns than the table had when it was copied."""
    sent, own = F.map_keys("e.after"), F.array(*map(F.lit, table.column_names))
    came, went = (F.array_join(F.array_except(*pair), ", ") for pair in ((sent, own), (own, sent)))
    told = F.concat(F.lit("its columns have changed: more ["), came, F.lit("], less ["), went, F.lit("]"))
    return F.when(F.col("e.after").isNotNull() & (F.array_sort(sent) != F.array_sort(own)), told)


def _bad_key(column: Column) -> Col:
    missing = (F.col(Changes.OP) != "t") & within(Changes.KEY, column.name).isNull()
    return F.when(missing, F.lit(f"key column {column.name}: no {column.kind}"))


def _bad_value(column: Column, placeholder: str) -> Col:
    sent = within("e.after", column.name).isNotNull()
    if column.kind in TOASTABLE:
        sent = sent & ~_is_unsent(column, placeholder)
    return F.when(sent & within(Changes.ROW, column.name).isNull(), F.lit(f"column {column.name}: no {column.kind}"))
