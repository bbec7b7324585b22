"""A user's own Structured Streaming job over the changes of a table: clicks a minute, by Spark's own watermark.

    python -m tests.support.clicks_job MASTER CONFIG FOLDER ARCHIVE

It reads what there is, writes the windows that have closed to FOLDER/windows, and keeps its place in FOLDER/checkpoint.
Workers get the toolkit's ARCHIVE.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cdc
from cdc.local.fetch.jars import spark_jars
from tests.support.parts.quick_spark import QUICK


def count_clicks(spark: SparkSession, config: str | Path, folder: Path) -> None:
    """Count what there is behind the job's checkpoint."""
    clicks = cdc.changes(spark, "public.clicks", config=config).where("_change = 'insert'")
    counts = clicks.withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute"), "page").count()
    rows = counts.select("window.start", "page", "count")
    query = rows.writeStream.option("checkpointLocation", str(folder / "checkpoint")).format("parquet")
    query.outputMode("append").trigger(availableNow=True).start(str(folder / "windows")).awaitTermination()


def open_session(master: str, archive: str) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("clicks")
    shipped = {"spark.jars": ",".join(map(str, spark_jars())), "spark.submit.pyFiles": archive}
    local = {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    for key, value in {**shipped, "spark.executor.memory": "512m", **local, **QUICK}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def run(master: str, config: str, folder: Path, archive: str) -> None:
    spark = open_session(master, archive)
    count_clicks(spark, config, folder)
    spark.stop()


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
