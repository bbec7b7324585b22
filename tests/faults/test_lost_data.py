"""Data that somebody deleted from a follower is noticed, and refilled if possible."""

import shutil
from collections.abc import Iterator
from typing import NoReturn

import httpx
import pytest
from pyspark.sql import SparkSession

from cdc.cli.output import say
from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.run.follow.follow import follow
from cdc.sinks.search.settings import SearchSettings
from tests.support.cdc_inprocess import bootstrap, catch_up, following, lend_bootstrapped, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline

TABLES = (
    "CREATE TABLE things (id int PRIMARY KEY, total numeric(10, 2))",
    "INSERT INTO things VALUES (1, 1.25)",
    "CREATE TABLE others (id int PRIMARY KEY)",
    "INSERT INTO others VALUES (1)",
)


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """Two tables that all follow, for tests that leave them so."""
    tables = ("public.things", "public.others")
    yield from lend_bootstrapped(left, spark, lambda: make_shared_pipeline(*TABLES, tables=tables))


def test_follower_cannot_catch_up_while_nobody_follows_the_lake(pipeline: Pipeline, spark: SparkSession) -> None:
    with pytest.raises(PreconditionError, match="search cannot catch up: nobody follows lake"):
        follow(pipeline.opened(spark), ("search",), say, until_caught_up=True)


def test_data_lost_in_a_follower_is_refilled(pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline.run("INSERT INTO things VALUES (2, 2.5)")
    catch_up(pipeline, spark)
    delete_index(pipeline)
    assert list(bootstrap(pipeline, spark).loaded) == ["search"]
    assert not bootstrap(pipeline, spark).has_changed
    delete_index(pipeline)
    pipeline.run("INSERT INTO things VALUES (3, 3.75)")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_followers_are_refilled_after_the_lake_is_replaced(
    pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.run("INSERT INTO things SELECT n, n FROM generate_series(5, 9) AS n", "UPDATE things SET total = 0")
    catch_up(pipeline, spark)
    shutil.rmtree(pipeline.settings.delta[1].path)
    pipeline.run("DELETE FROM things WHERE id < 5", "UPDATE things SET total = 7 WHERE id = 5")
    # killed when the follower's position is gone and nothing else was done
    with monkeypatch.context() as patched:
        patched.setattr("cdc.run.copy.fill.TableFiller.resume", kill)
        with pytest.raises(Killed):
            bootstrap(pipeline, spark)
    assert list(bootstrap(pipeline, spark).loaded) == ["search", "latest"]
    assert not bootstrap(pipeline, spark).has_changed
    # the new lake begins before the position that the followers had at the old one
    pipeline.run("INSERT INTO things VALUES (1, 1), (10, 10)", "DELETE FROM things WHERE id = 6")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_table_deleted_from_the_lake_is_copied_again(pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline.run("DELETE FROM things WHERE id > 1")
    catch_up(pipeline, spark)
    shutil.rmtree(f"{pipeline.settings.delta[1].path}/public/things")
    assert any("public.things: it is gone from the lake" in problem for problem in problems(pipeline))
    with following(pipeline, spark) as running:
        running.wait_for("public.things is followed no further than")
        running.wait_for("public.things joins: 1 row copied")
        pipeline.run("INSERT INTO things VALUES (2, 2)", "INSERT INTO others VALUES (3)")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_table_is_left_out_and_listed_again(pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline.configure("    - public.things\n", "")
    assert set(map(str, bootstrap(pipeline, spark).bookmarks)) == {"public.others"}
    # neither is a change of it waited for, nor is it in the way when its key goes
    pipeline.run(
        "INSERT INTO things VALUES (77)",
        "ALTER TABLE things DROP CONSTRAINT things_pkey",
        "INSERT INTO others VALUES (2)",
    )
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    pipeline.run("ALTER TABLE things ADD PRIMARY KEY (id)")
    pipeline.configure("    - public.others\n", "    - public.others\n    - public.things\n")
    assert set(map(str, bootstrap(pipeline, spark).copied)) == {"public.things"}
    pipeline.run("INSERT INTO things VALUES (78)", "DELETE FROM things WHERE id = 77")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_deleted_lake_is_reported(pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last test, since it leaves a lake that nobody can follow."""
    pipeline.run("INSERT INTO things VALUES (20, 2)")
    catch_up(pipeline, spark)
    shutil.rmtree(pipeline.settings.delta[1].path)
    # killed when the lake has its copy, before what follows it is filled
    monkeypatch.setattr("cdc.run.copy.bootstrap._fill_followers", kill)
    with pytest.raises(Killed):
        bootstrap(pipeline, spark)
    with pytest.raises(HistoryLostError, match=r"no cut at offset.*`cdc bootstrap` fills it anew"):
        catch_up(pipeline, spark)


class Killed(Exception):
    """The process ends here."""


def kill(*_: object) -> NoReturn:
    raise Killed


def delete_index(pipeline: Pipeline) -> None:
    settings = next(f for f in pipeline.settings.followers.values() if isinstance(f, SearchSettings))
    alias = f"{settings.url}/{pipeline.settings.pipeline.name}-public-things"
    [index] = httpx.get(alias).json()
    answer = httpx.delete(f"{settings.url}/{index}")
    assert answer.is_success, answer.text
