"""The stock comparison: both sides as DataFrames, `exceptAll` both ways. Settings as `jdbc_copy` has them.

Tells the seconds of the comparison alone, and how many rows differ.
"""

import time

from tests.bench.stock.jdbc_copy import source
from tests.bench.stock.session import session, tell, told


def main() -> None:
    """Compare every table."""
    settings = told()
    spark = session("stock comparison", settings["jars"])
    began, different = time.monotonic(), 0
    for table, folder in settings["tables"].items():
        leader, copy = source(spark, settings, table), spark.read.format("delta").load(folder)
        different += leader.exceptAll(copy).count() + copy.exceptAll(leader).count()
    tell(seconds=time.monotonic() - began, different=different)
    spark.stop()


if __name__ == "__main__":
    main()
