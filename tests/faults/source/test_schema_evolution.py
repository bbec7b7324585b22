"""Schema changes with policy `evolve`: the followers go on by themselves, with real servers."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from cdc.connect.capture.connect_client import ConnectClient
from tests.faults.source.evolution import CHANGES, LARGE, WIDENED, alter_tables, columns, differing, ids, make_tables
from tests.support.cdc_inprocess import bootstrap, catch_up, catch_up_but_for, following, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(1200)


def test_every_schema_change_is_followed(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_tables(make_pipeline, CHANGES, lake_only=False)
    bootstrap(pipeline, spark)
    before = ids(pipeline)
    pipeline.run(*(LARGE.format(t=name) for name in CHANGES))
    alter_tables(pipeline, CHANGES)
    catch_up(pipeline, spark)
    after = ids(pipeline)
    assert {name for name in before if before[name] == after[name]} == set(WIDENED)
    assert columns(pipeline, "twice") == ["id", "a", "b", "c", "d", "e", "f"]
    # and so it goes on, with one row of each: the others are still what the change made of them
    pipeline.run(*(f"UPDATE {name} SET id = id + 100 WHERE id = (SELECT max(id) FROM {name})" for name in CHANGES))
    catch_up(pipeline, spark)
    assert differing(pipeline, spark) == {}
    assert not bootstrap(pipeline, spark).has_changed


def test_schema_change_during_follow(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    names = {name: CHANGES[name] for name in ("came", "filled", "same")}
    pipeline = make_tables(make_pipeline, names, lake_only=False)
    bootstrap(pipeline, spark)
    with following(pipeline, spark) as running:
        pipeline.run("UPDATE came SET a = 0 WHERE id = 1")
        running.wait_for("lake: 1 change")
        alter_tables(pipeline, names)
        running.wait_for("public.filled is copied again: 4 rows")
        assert verify(pipeline, spark).is_equal
        # a table that is gone is followed again once it is there
        pipeline.run("ALTER TABLE same RENAME TO gone")
        running.wait_for("not copied again yet: no table public.same in the source")
        pipeline.run("UPDATE came SET a = -1 WHERE id = 1", "ALTER TABLE gone RENAME TO same")
        running.wait_for("public.same is copied again: 4 rows")
        assert verify(pipeline, spark).is_equal


@pytest.mark.further
def test_repeated_resyncs_under_writes(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_tables(make_pipeline, {"filled": (), "same": ()})
    bootstrap(pipeline, spark)
    with (
        following(pipeline, spark) as running,
        repeat_statement(pipeline, "INSERT INTO filled (id) SELECT max(id) + 1 FROM filled"),
    ):
        for number in range(2):
            pipeline.run(f"ALTER TABLE filled ADD COLUMN e{number} int DEFAULT {number}")
            running.wait_for("public.filled is copied again")
            pipeline.run("UPDATE same SET a = a + 1")
            running.wait_for("lake: ")
    catch_up(pipeline, spark)
    assert differing(pipeline, spark) == {}


@contextmanager
def repeat_statement(pipeline: Pipeline, statement: str) -> Iterator[None]:
    """The statement is run again and again, on a session of its own, for as long as the context lasts."""
    done = threading.Event()

    def run() -> None:
        with pipeline.servers.connect(pipeline.settings.source.dbname) as connection:
            while not done.is_set():
                connection.execute(statement.encode())

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(run)
        try:
            yield
        finally:
            done.set()
    running.result()


def test_columns_that_differ_by_case_stop_only_their_table(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    names = {name: CHANGES[name] for name in ("came", "same")}
    pipeline = make_tables(make_pipeline, names)
    pipeline.run("CREATE TABLE child () INHERITS (came)", "ALTER TABLE child ADD PRIMARY KEY (id)")
    pipeline.configure("- public.came\n", "- public.came\n    - public.child\n")
    bootstrap(pipeline, spark)
    with following(pipeline, spark) as running:
        pipeline.run(
            'BEGIN; UPDATE came SET a = 7; ALTER TABLE came ADD COLUMN "A" int DEFAULT 1; UPDATE came SET a = 8;'
            " UPDATE same SET a = 9; COMMIT",
            "INSERT INTO child VALUES (1)",
        )
        # at once: what it stands before is no refusal of the source's, but a table that followers stop at
        assert set(map(str, verify(pipeline, spark).stopped)) == {"public.came", "public.child"}
        running.wait_for("not copied again yet: columns 'a' and 'A' of public.came differ by case only")
        # nor does the capture end that reads what tables there are
        with captureless(pipeline):
            pass
        pipeline.run("UPDATE same SET a = 10")
        report = verify(pipeline, spark)
        assert set(map(str, report.stopped)) == {"public.came", "public.child"}
        assert all(v.comparison and v.comparison.equal for t in report.followers.values() for v in t.values())
        pipeline.run('ALTER TABLE came RENAME COLUMN "A" TO other')
        running.wait_for("public.child is copied again: 1 row copied")
        until(lambda: not pipeline.opened().lake_follower.tables.stops(), "both take part again")
        pipeline.run("UPDATE came SET a = 11")
        assert verify(pipeline, spark).is_equal


@contextmanager
def captureless(pipeline: Pipeline) -> Iterator[None]:
    """The connector has no task meanwhile, and begins behind it as after a restart of its worker."""
    capture = pipeline.settings.connect
    with ConnectClient(capture.url) as client:
        client.stop(capture.connector)
        until(lambda: is_stopped(client, capture.connector), "the connector has no task")
        yield
        client.resume(capture.connector)


def test_capture_fails_at_rows_from_before_a_type_change(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    names = {
        name: CHANGES[name] for name in ("came", "went_and_came", "other_type", "made_again", "other_key", "by_case")
    }
    pipeline = make_tables(make_pipeline, names)
    bootstrap(pipeline, spark)
    with captureless(pipeline):
        pipeline.run(*(LARGE.format(t=name) for name in names))
        alter_tables(pipeline, names)
    catch_up(pipeline, spark)
    assert differing(pipeline, spark) == {}


def test_table_with_policy_stop(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    names = {name: CHANGES[name] for name in ("came", "twice", "filled")}
    pipeline = make_tables(make_pipeline, names)
    pipeline.configure(
        "on_schema_change: evolve",
        "on_schema_change: additive\n  on_schema_change_of: {public.came: stop, public.filled: additive}",
    )
    bootstrap(pipeline, spark)
    alter_tables(pipeline, names)
    told = catch_up_but_for(pipeline, spark, r"public\.came .* column e came.*")
    assert "column e came, with a default" in told
    report = verify(pipeline, spark)
    assert list(map(str, report.stopped)) == ["public.came", "public.filled"]
    assert all(v.comparison and v.comparison.equal for t in report.followers.values() for v in t.values())
    assert len([line for line in problems(pipeline) if "cdc bootstrap --again" in line]) == 2
    bootstrap(pipeline, spark, "public.came", "public.filled")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def is_stopped(client: ConnectClient, connector: str) -> bool:
    status = client.status(connector)
    return status is not None and not status.tasks
