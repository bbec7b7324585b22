"""The stock way to the lake: Structured Streaming on Debezium's topics, and a MERGE a table in `foreachBatch`.

As Delta's documentation has it ("Upsert from streaming queries using foreachBatch", "Write change data into a Delta
table"), with deletion vectors on. It knows no transactions, no cuts and no position but Spark's checkpoint.

Settings: jars, kafka, topics (topic to folder), starting_offsets, checkpoint, trigger, at_once (tables merged at once).
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tests.bench.stock.envelope import changes, newest_per_key
from tests.bench.stock.session import ROW, session, told


def merge(rows: DataFrame, folder: str) -> None:
    """Apply the newest change of every key to one table."""
    values: dict[str, str | Column] = {name: f"s.{name}" for name in ROW.names}
    (
        DeltaTable.forPath(rows.sparkSession, folder)
        .alias("t")
        .merge(rows.alias("s"), "t.id = s.id")
        .whenMatchedDelete("s.op = 'd'")
        .whenMatchedUpdate(set=values)
        .whenNotMatchedInsert("s.op <> 'd'", values=values)
        .execute()
    )


class Apply:
    """One micro-batch: every table that has changes in it."""

    def __init__(self, folders: Mapping[str, str], at_once: int) -> None:
        self._folders = folders
        self._threads = ThreadPoolExecutor(at_once)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        newest = newest_per_key(batch).persist()
        try:
            topics = [row["topic"] for row in newest.select("topic").distinct().collect()]
            parts = [newest.where(F.col("topic") == topic) for topic in topics]
            list(self._threads.map(merge, parts, map(self._folders.__getitem__, topics)))
        finally:
            newest.unpersist()


def main() -> None:
    """Run until told to stop."""
    settings = told()
    spark = session("stock merge", settings["jars"], settings.get("conf"))
    query = (
        changes(spark, settings)
        .writeStream.foreachBatch(Apply(settings["topics"], settings["at_once"]))
        .option("checkpointLocation", settings["checkpoint"])
        .trigger(processingTime=settings["trigger"])
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
