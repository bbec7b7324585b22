"""Messages as Debezium writes them: a row of other columns than the table's is no change of it."""

import json
from collections.abc import Mapping

import pytest
from pyspark.sql import Row, SparkSession

from cdc.columns.decode import decode
from cdc.columns.names import Changes, Message
from cdc.core.table import Column, Kind, Table, TableName

TABLE = Table(
    TableName("public", "t"), (Column("id", Kind.INTEGER), Column("a b", Kind.TEXT), Column("j", Kind.JSON)), ("id",)
)
MESSAGE = (
    f"{Message.KEY} binary, {Message.VALUE} binary, {Message.TOPIC} string, {Message.PARTITION} int,"
    f" {Message.OFFSET} long, {Message.HEADERS} array<struct<key: string, value: binary>>"
)


def decoded(spark: SparkSession, after: Mapping[str, object] | None, op: str = "c") -> Row:
    envelope = {"op": op, "source": {"txId": 7}, "transaction": {"total_order": 1}, "after": after}
    message = (b'{"id": 1}', json.dumps(envelope).encode(), "p.public.t", 0, 5, None)
    row = decode(spark.createDataFrame([message], MESSAGE), TABLE, "__unsent__").first()
    assert row is not None
    return row


def test_a_row_of_the_tables_columns(spark: SparkSession) -> None:
    row = decoded(spark, {"id": 1, "a b": "x", "j": '{"k": 1.10}'})
    assert row[Changes.REFUSAL] is None
    assert row[Changes.ROW].asDict() == {"id": 1, "a b": "x", "j": '{"k": 1.10}'}


def test_nulls_and_unsent_values(spark: SparkSession) -> None:
    row = decoded(spark, {"id": 1, "a b": "__unsent__", "j": None}, "u")
    assert (row[Changes.REFUSAL], row[Changes.UNSENT]) == (None, ["a b"])
    assert row[Changes.ROW].asDict() == {"id": 1, "a b": None, "j": None}


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ({"id": 1, "a b": "x", "j": None, "new": 1}, "its columns have changed: more [new], less []"),
        ({"id": 1, "j": None}, "its columns have changed: more [], less [a b]"),
        ({"id": 1, "renamed": "x", "j": None}, "its columns have changed: more [renamed], less [a b]"),
    ],
)
def test_a_row_of_other_columns_is_refused(spark: SparkSession, after: dict[str, object], told: str) -> None:
    assert decoded(spark, after)[Changes.REFUSAL] == told


def test_a_delete_has_no_columns(spark: SparkSession) -> None:
    assert decoded(spark, None, "d")[Changes.REFUSAL] is None
