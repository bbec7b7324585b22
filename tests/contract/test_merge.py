"""Keys of any time find their row, whatever time zone the driver is in and whatever years Python knows."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.names import Net
from cdc.columns.spark_types import spark_type
from cdc.core.table import Column, Kind, Table, TableName
from sinks.lake.write import Write, merge, shape_of

TIMES = {
    Kind.TIMESTAMP: ("2024-07-01 12:00:00.000001", "2024-10-27 02:30:00", "+12024-02-29 12:34:56"),
    Kind.TIMESTAMPTZ: ("2024-07-01 12:00:00Z", "2024-10-27 00:30:00Z", "-0044-03-15 00:00:00.000001Z"),
    Kind.DATE: ("2024-07-01", "-0044-03-15", "+12024-02-29"),
}


@pytest.fixture(params=["UTC", "Europe/Berlin"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


def net_of(spark: SparkSession, table: Table, key: str, *, removed: bool) -> DataFrame:
    kind = spark_type(table.columns[0]).simpleString()
    row = f"struct(cast('{key}' AS {kind}) AS at, 'new' AS what)"
    return spark.sql(
        f"SELECT struct({row}.at AS at) AS {Net.KEY}, {row} AS {Net.ROW}, {removed} AS {Net.REMOVED},"
        f" true AS {Net.EXISTED}, cast(array() AS array<string>) AS {Net.UNSENT}, struct({row}.at AS at) AS {Net.BASE}"
    )


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, keys in TIMES.items() for key in keys])
def test_a_key_of_time_finds_its_row(spark: SparkSession, tmp_path: Path, kind: Kind, key: str) -> None:
    table = Table(TableName("public", "t"), (Column("at", kind), Column("what", Kind.TEXT)), ("at",))
    folder = str(tmp_path / "t")
    type_name = spark_type(table.columns[0]).simpleString()
    spark.sql(f"SELECT cast('{key}' AS {type_name}) AS at, 'old' AS what").write.format("delta").save(folder)
    for version, removed, left in ((1, False, ["new"]), (2, True, [])):
        net = net_of(spark, table, key, removed=removed)
        merge(spark, net, table, shape_of(net, table), Write(folder, "test", version))
        assert [row["what"] for row in spark.read.format("delta").load(folder).select("what").collect()] == left
