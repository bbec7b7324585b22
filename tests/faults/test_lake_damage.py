"""A lake that others changed, damaged or restored from a backup; `cdc follow` goes on."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.run.follow.follow import follow
from tests.support.cdc_inprocess import bootstrap, catch_up, following, lend, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline

TABLES = (
    "CREATE TABLE things (id int PRIMARY KEY, total numeric(10, 2))",
    "INSERT INTO things SELECT n, 0 FROM generate_series(1, 200) AS n",
    "CREATE TABLE others (id int PRIMARY KEY)",
    "INSERT INTO others VALUES (1)",
)
LOST = r"no cut at offset \d+.* put back to an older state → `cdc bootstrap`"
NAMES = ("public.things", "public.others")


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """Copies, and a transaction behind them, in the lake; each test ends with all of it repaired."""
    yield from lend(left, lambda: follow_one_change(make_shared_pipeline(*TABLES, tables=NAMES, lake_only=True), spark))


@pytest.fixture(scope="module")
def left_fed() -> list[Pipeline]:
    """As `left`."""
    return []


@pytest.fixture
def fed_pipeline(
    left_fed: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """The same in all followers."""
    yield from lend(left_fed, lambda: follow_one_change(make_shared_pipeline(*TABLES, tables=NAMES), spark))


def follow_one_change(made: Pipeline, spark: SparkSession) -> Pipeline:
    bootstrap(made, spark)
    made.run("UPDATE things SET total = 1 WHERE id <= 100")
    catch_up(made, spark)
    return made


def put_back(folder: Path, backup: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)


def cut_off_the_index(pipeline: Pipeline, spark: SparkSession) -> None:
    """The lake takes in a row; the index writes it, and is cut off before its batch is whole."""
    pipeline.run("INSERT INTO others VALUES (100000)")
    with (
        patch("cdc.sinks.search.follower.refresh", side_effect=PreconditionError("cut off", "go on")),
        pytest.raises(PreconditionError, match="cut off"),
    ):
        follow(pipeline.opened(spark), ("lake", "search"), print, until_caught_up=True)


def things(pipeline: Pipeline) -> Path:
    return Path(pipeline.settings.delta[1].path, "public", "things")


def change_tables(pipeline: Pipeline, number: int) -> None:
    """Changes in both tables."""
    pipeline.run(f"UPDATE things SET total = {number}", "INSERT INTO others SELECT max(id) + 1 FROM others")


def check_copied_again(pipeline: Pipeline, spark: SparkSession, reason: str) -> None:
    """A running `follow` tells why it stopped the table, copies it by itself, and all followers end equal."""
    with following(pipeline, spark) as running:
        change_tables(pipeline, 20)
        running.wait_for(f": {reason}")
        running.wait_for("public.things is copied again: 200 rows copied")
        change_tables(pipeline, 30)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert not problems(pipeline)


def test_table_restored_from_backup_is_copied_again(
    fed_pipeline: Pipeline, spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = fed_pipeline
    backup = shutil.copytree(things(pipeline), tmp_path / "backup")
    change_tables(pipeline, 10)
    catch_up(pipeline, spark)
    shutil.rmtree(things(pipeline))
    shutil.copytree(backup, things(pipeline))
    check_copied_again(pipeline, spark, "it was put back to version 1, and the last cut has version 2")


def test_table_with_damaged_deletion_vector_is_copied_again(pipeline: Pipeline, spark: SparkSession) -> None:
    [vector] = things(pipeline).glob("deletion_vector_*.bin")
    vector.write_bytes(vector.read_bytes()[:20])
    shutil.rmtree(Path(pipeline.settings.pipeline.state) / "index")
    check_copied_again(pipeline, spark, f"file {vector.name} of the lake is damaged")


@pytest.mark.further
def test_table_restored_by_another_writer_is_copied_again(pipeline: Pipeline, spark: SparkSession) -> None:
    """`tests/spark/test_other_writers.py` has the stop; the copy is that of the other stops here."""
    before = max(int(commit.stem) for commit in (things(pipeline) / "_delta_log").glob("*.json"))
    with following(pipeline, spark) as running:
        change_tables(pipeline, 10)
        running.wait_for("lake: ")
        spark.sql(f"RESTORE TABLE delta.`{things(pipeline)}` TO VERSION AS OF {before}").collect()
        change_tables(pipeline, 20)
        running.wait_for("another writer's RESTORE (version ")
        running.wait_for("public.things is copied again: 200 rows copied")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_lake_restored_from_backup_goes_on_and_followers_are_refilled(
    fed_pipeline: Pipeline, spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = fed_pipeline
    lake = Path(pipeline.settings.delta[1].path)
    backup = shutil.copytree(lake, tmp_path / "backup")
    cut_off_the_index(pipeline, spark)
    # the row that only the lost cut has: nothing that the lake finds in the log again tells the index of it
    pipeline.run("DELETE FROM others WHERE id = 100000", "INSERT INTO others VALUES (100001)")
    put_back(lake, backup)
    with pytest.raises(HistoryLostError, match=LOST):
        catch_up(pipeline, spark)
    assert sorted(bootstrap(pipeline, spark).loaded) == ["search"]
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    put_back(backup, lake)
    for number in (10, 11, 12):
        change_tables(pipeline, number)
    catch_up(pipeline, spark)
    put_back(lake, backup)
    change_tables(pipeline, 20)
    with pytest.raises(HistoryLostError, match=LOST):
        catch_up(pipeline, spark)
    # also where the lake has come as far again
    with pytest.raises(HistoryLostError, match=LOST):
        catch_up(pipeline, spark)
    assert sorted(bootstrap(pipeline, spark).loaded) == ["latest", "search"]
    change_tables(pipeline, 30)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_append_only_property_is_reported_until_removed(pipeline: Pipeline, spark: SparkSession) -> None:
    table = f"ALTER TABLE delta.`{things(pipeline)}`"
    with following(pipeline, spark) as running:
        spark.sql(f"{table} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
        change_tables(pipeline, 10)
        running.wait_for("table public.things of the lake was given delta.appendOnly = true, which forbids to update")
        running.wait_for("not copied again yet: table public.things of the lake was given delta.appendOnly = true")
        spark.sql(f"{table} UNSET TBLPROPERTIES ('delta.appendOnly')")
        running.wait_for("public.things is copied again: 200 rows copied")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
