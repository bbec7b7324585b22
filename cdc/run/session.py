"""The one place where a Spark session is made."""

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

FIXED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""What the toolkit relies on, whatever the rest is."""

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}


def build(name: str, master: str, driver_memory: str, jars: Sequence[str], conf: Mapping[str, str]) -> SparkSession:
    """A session with Delta and the Kafka source on its class path.

    `jars` are files; none where `spark-submit` has brought them. A local master listens on loopback only.
    """
    builder = SparkSession.builder.appName(name).master(master).config("spark.driver.memory", driver_memory)
    if jars:
        builder = builder.config("spark.jars", ",".join(jars))
    local = LOOPBACK if master.startswith("local") else {}
    for key, value in {**local, **conf, **FIXED}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
