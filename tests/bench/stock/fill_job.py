"""Spark's plain CREATE TABLE AS SELECT, over tables of a lake at the versions of a cut.

Settings: jars, conf, tables (name to folder and version), statements (folder to statement over these names). Tells the
seconds of the statements alone, one after the other, Spark's start left out.
"""

import time

from tests.bench.stock.session import session, tell, told


def main() -> None:
    """Compute, and tell."""
    settings = told()
    spark = session("stock fill", settings["jars"], settings["conf"])
    for name, (folder, version) in settings["tables"].items():
        spark.read.format("delta").option("versionAsOf", version).load(folder).createOrReplaceTempView(name)
    began = time.monotonic()
    for folder, statement in settings["statements"].items():
        spark.sql(f"CREATE TABLE delta.`{folder}` USING delta AS {statement}")
    tell(seconds=time.monotonic() - began)
    spark.stop()


if __name__ == "__main__":
    main()
