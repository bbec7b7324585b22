"""Full scans of a Delta table by Spark, every column of every row; or first a compacted copy of it.

Settings: jars, folder, version, scans; with `into`, a folder, the version's rows become one file there, in a table of
the same features and the same compression. Tells the seconds of each scan, after some that warm Spark up.
"""

import time

from pyspark.sql import DataFrame

from tests.bench.stock.session import session, tell, told

WARM = 5
FEATURES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
SAME_CODEC = {"spark.sql.parquet.compression.codec": "zstd"}


def main() -> None:
    """Copy, or scan."""
    settings = told()
    spark = session("scan", settings["jars"], SAME_CODEC)

    def rows() -> DataFrame:
        return spark.read.format("delta").option("versionAsOf", settings["version"]).load(settings["folder"])

    if "into" in settings:
        rows().coalesce(1).write.format("delta").options(**FEATURES).save(settings["into"])
        tell()
    else:
        tell(seconds=[_scanned(rows()) for _ in range(WARM + settings["scans"])][WARM:])
    spark.stop()


def _scanned(rows: DataFrame) -> float:
    """Seconds that it takes to read every column of every row."""
    began = time.monotonic()
    rows.selectExpr("bit_xor(xxhash64(*))").collect()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
