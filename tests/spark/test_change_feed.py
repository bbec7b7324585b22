"""The change feed of our commits as Spark reads it (`readChangeFeed`), over large vectors, TRUNCATE and other hands.

Spark works out from vectors what a commit without change data has deleted, and cannot where the difference takes more
than 64 KB (delta-io/delta issue 5662). Our commits name their change data; those of other hands may not.
"""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cdc.core.errors import TableLostError
from cdc.sinks.lake.table.writer import TableWriter
from tests.support.histories import THINGS
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables import apply, copy_rows, open_writer, row, update
from tests.support.model import CommitOrder, Delete, Insert, Row, Truncate

T = THINGS.name
MANY = 540_000
"""Of these, every fifteenth is deleted at first. A vector takes 8 KB for each 65,536 rows of which more than 4,096 are
deleted: this is the smallest table whose vector has more than 64 KB."""
DELETED = range(0, MANY, 15)


@pytest.fixture(scope="module")
def thinned(tmp_path_factory: pytest.TempPathFactory) -> PlacedLake:
    """A lake whose table has lost every fifteenth row."""
    made = in_folder(tmp_path_factory.mktemp("thinned"))
    copy_rows(made, THINGS, [row(n, "old") for n in range(MANY)])
    table_writer = open_writer(made)
    apply(table_writer, [Delete(T, CommitOrder(1, 1 + at), (n,)) for at, n in enumerate(DELETED)], 1)
    [file] = table_writer.snapshot.files.values()
    assert file.vector is not None
    assert file.vector.size > 64 * 1024
    return made


@pytest.fixture
def lake(thinned: PlacedLake, tmp_path: Path) -> PlacedLake:
    made = in_folder(tmp_path)
    shutil.copytree(thinned.files, made.files)
    return made


@pytest.fixture
def writer(lake: PlacedLake) -> TableWriter:
    return open_writer(lake)


@pytest.fixture
def compiling(spark: SparkSession) -> SparkSession:
    """A session that compiles its plans, which others need not for some rows: to read half a million without takes
    longer."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "true")
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    return session


def feed(spark: SparkSession, lake: PlacedLake, version: int) -> dict[str, tuple[int, int]]:
    """A version's changes as Spark reads them: per change type, number of rows and sum of ids."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    frame = reader.option("startingVersion", version).option("endingVersion", version).load(lake.folder(T))
    rows = frame.groupBy("_change_type").agg(f.count("id").alias("rows"), f.sum("id").alias("ids")).collect()
    return {change["_change_type"]: (change["rows"], change["ids"]) for change in rows}


def test_spark_reads_the_feed_over_a_vector_above_64_kb(
    lake: PlacedLake, writer: TableWriter, compiling: SparkSession
) -> None:
    assert feed(compiling, lake, writer.snapshot.version) == {"delete": (len(DELETED), sum(DELETED))}
    apply(writer, [*update(2, row(1, "new")), Delete(T, CommitOrder(2, 2), (2,))], 2)
    assert feed(compiling, lake, writer.snapshot.version) == {"update_postimage": (1, 1), "delete": (1, 2)}


def test_spark_reads_the_feed_over_a_truncate_and_later_inserts(
    lake: PlacedLake, writer: TableWriter, compiling: SparkSession
) -> None:
    behind: Row = row(MANY, "behind")
    apply(
        writer,
        [*update(2, row(1, "x")), Truncate(T, CommitOrder(3, 1)), Insert(T, CommitOrder(3, 2), (MANY,), behind)],
        2,
    )
    remaining = [n for n in range(MANY) if n % 15]
    assert feed(compiling, lake, writer.snapshot.version) == {
        "delete": (len(remaining), sum(remaining)),
        "insert": (1, MANY),
    }


def test_spark_reads_the_feed_over_another_writers_delete(
    lake: PlacedLake, writer: TableWriter, compiling: SparkSession
) -> None:
    apply(writer, update(2, row(4, "new")), 2)
    compiling.sql(f"DELETE FROM delta.`{lake.folder(T)}` WHERE id IN (1, 2, 7)")
    # for us that is another table, which is copied again
    with pytest.raises(TableLostError):
        writer.refresh()
    version = writer.snapshot.version
    assert feed(compiling, lake, version - 1) == {"update_postimage": (1, 4)}
    assert feed(compiling, lake, version) == {"delete": (3, 10)}
