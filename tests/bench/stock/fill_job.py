"""Spark's plain CREATE TABLE AS SELECT, over tables of a lake at the versions of a cut.

Settings: jars, conf, tables (name to folder and version), statement (over these names), into (a folder). Tells the
seconds of the statement alone, Spark's start left out.
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
    spark.sql(f"CREATE TABLE delta.`{settings['into']}` USING delta AS {settings['statement']}")
    tell(seconds=time.monotonic() - began)
    spark.stop()


if __name__ == "__main__":
    main()
