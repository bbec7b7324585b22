"""A Spark session as the guides of Spark and Delta set one up, with the same master and memory that ours has."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

ROW = T.StructType(
    [
        T.StructField("id", T.LongType()),
        T.StructField("xid", T.LongType()),
        T.StructField("seq", T.LongType()),
        T.StructField("writer", T.IntegerType()),
        T.StructField("amount", T.StringType()),
        T.StructField("note", T.StringType()),
        T.StructField("written_at", T.StringType()),
    ]
)
"""A bench table's row as Debezium writes it."""

TYPED = {"amount": "decimal(12,2)", "written_at": "timestamp"}
"""What the texts of a row are."""


def told() -> dict[str, Any]:
    """The job's settings: the JSON file that its one argument names."""
    settings: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    return settings


def session(name: str, jars: Sequence[str], conf: Mapping[str, str] | None = None) -> SparkSession:
    """Spark with Delta and Kafka on its class path."""
    builder = (
        SparkSession.builder.appName(name)
        .master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.jars", ",".join(jars))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    )
    for key, value in (conf or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def tell(**found: object) -> None:
    """What the job found, on its last line of stdout."""
    sys.stdout.write(f"{json.dumps(found)}\n")
    sys.stdout.flush()
