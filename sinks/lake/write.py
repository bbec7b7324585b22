"""One table's net effect written into its Delta table in one commit, by the cheapest way that is right."""

from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import Column as Col
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.names import Net, quoted, within
from cdc.columns.spark_types import TOASTABLE, spark_type
from cdc.core.table import Column, Kind, Table

BOUNDED = frozenset({Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
"""Kinds of key columns whose smallest and largest value let Delta skip files."""


@dataclass(frozen=True, slots=True)
class Write:
    """Where a batch goes, and the `txn` that its commit carries: Delta skips a version that it has, in silence."""

    folder: str
    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Shape:
    """What a net effect is made of: counts of rows, and the bounds of the first key column.

    Bounds are text as Spark casts it, never Python values: those know fewer years, and another time zone.
    """

    rows: int
    fresh_rows: int
    gone: int
    borrowing: int
    lowest: str | None
    highest: str | None


def shape_of(net: DataFrame, table: Table) -> Shape:
    """Count, in one pass, what decides how `net` is written."""
    first = within(Net.KEY, table.key[0])
    borrows = F.coalesce(F.size(Net.UNSENT) > 0, F.lit(False)) & ~F.col(Net.BASE).eqNullSafe(F.col(Net.KEY))
    row = net.agg(
        F.count("*"),
        F.count_if(~F.col(Net.EXISTED) & ~F.col(Net.REMOVED)),
        F.count_if(F.col(Net.REMOVED)),
        F.count_if(borrows & ~F.col(Net.REMOVED)),
        F.min(first).cast("string"),
        F.max(first).cast("string"),
    ).first()
    assert row is not None
    return Shape(*row)


def replace(net: DataFrame, table: Table, write: Write) -> None:
    """After a TRUNCATE: the table is what came behind it."""
    _saved(_rows(net, table), "overwrite", write)


def append(net: DataFrame, table: Table, write: Write) -> None:
    """Only rows under keys that were not there: no row of the table needs to be looked at."""
    _saved(_rows(net, table), "append", write)


def merge(session: SparkSession, net: DataFrame, table: Table, shape: Shape, write: Write) -> None:
    """The general case: delete, update and insert by key; unsent values stay as they are in the table.

    `session` is this write's own: the txn is a setting of the session.
    """
    target = DeltaTable.forPath(session, write.folder)
    source = _filled(net, target.toDF(), table) if shape.borrowing else net
    session.conf.set("spark.databricks.delta.write.txnAppId", write.app_id)
    session.conf.set("spark.databricks.delta.write.txnVersion", str(write.version))
    try:
        (
            target.alias("t")
            .merge(source.alias("s"), _same_key(table, shape))
            .whenMatchedDelete(F.col("s.removed"))
            .whenMatchedUpdate(set={quoted(c.name): _updated(c, table) for c in table.columns})
            .whenNotMatchedInsert(
                ~F.col("s.removed"), {quoted(c.name): F.col("s.row").getField(c.name) for c in table.columns}
            )
            .execute()
        )
    finally:
        session.conf.unset("spark.databricks.delta.write.txnAppId")
        session.conf.unset("spark.databricks.delta.write.txnVersion")


def _rows(net: DataFrame, table: Table) -> DataFrame:
    kept = net.where(~F.col(Net.REMOVED))
    return kept.select(*(within(Net.ROW, name).alias(name) for name in table.column_names))


def _saved(rows: DataFrame, mode: str, write: Write) -> None:
    writer = rows.write.format("delta").mode(mode)
    writer.option("txnAppId", write.app_id).option("txnVersion", write.version).save(write.folder)


def _same_key(table: Table, shape: Shape) -> Col:
    same = F.lit(True)
    for name in table.key:
        same = same & (F.col(f"t.{quoted(name)}") == F.col("s.key").getField(name))
    first = table.key_columns[0]
    if first.kind in BOUNDED:
        lowest, highest = (F.lit(bound).cast(spark_type(first)) for bound in (shape.lowest, shape.highest))
        same = same & F.col(f"t.{quoted(first.name)}").between(lowest, highest)
    return same


def _updated(column: Column, table: Table) -> Col:
    sent = F.col("s.row").getField(column.name)
    if column.kind not in TOASTABLE or column.name in table.key:
        return sent
    kept = F.array_contains(F.col("s.unsent"), column.name)
    return F.when(kept, F.col(f"t.{quoted(column.name)}")).otherwise(sent)


def _filled(net: DataFrame, before: DataFrame, table: Table) -> DataFrame:
    """Unsent values of rows whose key was changed, from the row under the key that they had before the batch."""
    key = F.struct(*(F.col(quoted(name)) for name in table.key))
    former = before.select(key.alias("former_key"), F.struct(*map(quoted, table.column_names)).alias("former"))
    elsewhere = ~F.col(Net.BASE).eqNullSafe(F.col(Net.KEY))
    joined = net.join(former, elsewhere & (F.col(Net.BASE) == F.col("former_key")), "left")
    fields = [
        F.when(elsewhere & F.array_contains(F.col(Net.UNSENT), c), F.col("former").getField(c))
        .otherwise(within(Net.ROW, c))
        .alias(c)
        for c in table.column_names
    ]
    filled = {
        Net.ROW: F.struct(*fields),
        Net.UNSENT: F.when(elsewhere, F.array().cast("array<string>")).otherwise(F.col(Net.UNSENT)),
    }
    return joined.select(*(filled.get(name, F.col(name)).alias(name) for name in Net))
