"""The stock copy: Spark's JDBC source, split by the key, into a new Delta table with deletion vectors.

As Spark's documentation has it ("JDBC To Other Databases"). Settings: jars, jdbc, user, password, tables (name to
folder), partitions, highest (the largest key). Tells the seconds of the copy alone, Spark's start left out.
"""

import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.bench.stock.session import session, tell, told


def source(spark: SparkSession, settings: dict[str, Any], table: str) -> DataFrame:
    """The table as Spark reads it from Postgres."""
    return (
        spark.read.format("jdbc")
        .option("url", settings["jdbc"])
        .option("driver", "org.postgresql.Driver")
        .option("user", settings["user"])
        .option("password", settings["password"])
        .option("dbtable", f"public.{table}")
        .option("partitionColumn", "id")
        .option("lowerBound", 1)
        .option("upperBound", settings["highest"])
        .option("numPartitions", settings["partitions"])
        .option("fetchsize", 10_000)
        .load()
    )


def main() -> None:
    """Copy every table."""
    settings = told()
    spark = session("stock copy", settings["jars"])
    began = time.monotonic()
    for table, folder in settings["tables"].items():
        rows = source(spark, settings, table)
        rows.write.format("delta").mode("overwrite").option("delta.enableDeletionVectors", "true").save(folder)
    tell(seconds=time.monotonic() - began)
    spark.stop()


if __name__ == "__main__":
    main()
