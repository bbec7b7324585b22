"""Spark's way to keep a view: compute it whole from the lake's newest cut, and overwrite it, again and again.

Settings: jars, conf, cuts, tables (name to folder), statement (over these names), into (a folder). Each commit says
which cut it was computed from. Ours finds the newest cut in the same way: a query by delta-rs takes no job of Spark.
"""

import json
import time
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from tests.bench.stock.session import session, told

PAUSE_SECONDS = 0.05
_NEWEST = "SELECT lsn, end_offset, versions FROM cuts ORDER BY end_offset DESC LIMIT 1"


def newest_cut(folder: str) -> dict[str, Any]:
    """The newest cut: its LSN, END offset, and the version of every table."""
    rows = pa.table(QueryBuilder().register("cuts", DeltaTable(folder)).execute(_NEWEST).read_all())
    cut: dict[str, Any] = rows.to_pylist()[0]
    return {**cut, "versions": json.loads(cut["versions"])}


def compute(spark: SparkSession, settings: dict[str, Any], cut: dict[str, Any]) -> None:
    """Overwrite the view with the statement's result at a cut."""
    for name, folder in settings["tables"].items():
        version = cut["versions"][f"public.{name}"]
        spark.read.format("delta").option("versionAsOf", version).load(folder).createOrReplaceTempView(name)
    note = json.dumps({"lsn": cut["lsn"], "end_offset": cut["end_offset"]})
    rows = spark.sql(settings["statement"])
    rows.write.format("delta").mode("overwrite").option("userMetadata", note).save(settings["into"])


def main() -> None:
    """Compute until told to stop."""
    settings = told()
    spark = session("stock view", settings["jars"], settings["conf"])
    last = -1
    while True:
        cut = newest_cut(settings["cuts"])
        if cut["end_offset"] > last:
            compute(spark, settings, cut)
            last = cut["end_offset"]
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
