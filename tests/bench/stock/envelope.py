"""Debezium's envelope read with `from_json`, and its newest change of every key, as tutorials have it."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tests.bench.stock.session import ROW, TYPED

ENVELOPE = T.StructType(
    [
        T.StructField("before", ROW),
        T.StructField("after", ROW),
        T.StructField("op", T.StringType()),
        T.StructField("source", T.StructType([T.StructField("lsn", T.LongType())])),
    ]
)


def changes(spark: SparkSession, settings: Mapping[str, Any]) -> DataFrame:
    """The change topics as a stream: topic, offset, op, key and row of every change; tombstones are left out."""
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings["kafka"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", ",".join(settings["topics"]))
        .option("startingOffsets", settings["starting_offsets"])
        .load()
        .where("value IS NOT NULL")
    )
    parsed = stream.select("topic", "offset", F.from_json(F.col("value").cast("string"), ENVELOPE).alias("change"))
    row = F.when(F.col("change.op") == "d", F.col("change.before")).otherwise(F.col("change.after"))
    fields = [row[name].cast(TYPED.get(name, ROW[name].dataType)).alias(name) for name in ROW.names]
    return parsed.select("topic", "offset", F.col("change.op").alias("op"), *fields)


def newest_per_key(batch: DataFrame) -> DataFrame:
    """The last change of every key; a key's changes lie in one partition, in their order."""
    last_first = Window.partitionBy("topic", "id").orderBy(F.col("offset").desc())
    return batch.withColumn("rank", F.row_number().over(last_first)).where("rank = 1").drop("rank")
