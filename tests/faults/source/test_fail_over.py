"""The source's primary dies under load, again and again, and its standby takes its place with the slot."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import HistoryLostError
from cdc.torture.proxy import Proxy
from tests.support.cdc_inprocess import bootstrap, catch_up, problems, recapture_all, started, verify
from tests.support.further import further
from tests.support.lake.read_rows import read_rows
from tests.support.parts.pipelines import Pipeline, pipelines
from tests.support.parts.removal import remove_traces
from tests.support.parts.servers_fixture import Servers
from tests.support.parts.standby import PrimaryAndStandby
from tests.support.waiting import until

SCHEMA = (
    "CREATE TABLE things (id int PRIMARY KEY, round int)",
    "INSERT INTO things SELECT -n, 0 FROM generate_series(1, 100) AS n",
)


@pytest.fixture
def pipeline(primary: Servers, pair: PrimaryAndStandby, tmp_path: Path, quicker: None) -> Iterator[Pipeline]:
    with pipelines(primary, tmp_path, remove_traces) as make:
        yield make(*SCHEMA, tables=("public.things",), lake_only=True)
        # it ends when it meets the end of a database of which it keeps a slot, and then each commit would wait for it
        pair.stop_standby()


class Writer:
    """Commits one row after another, and notes those that were acknowledged."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.round = 0
        self.acknowledged: list[int] = []
        self.done = threading.Event()
        self._pipeline = pipeline

    def run(self) -> None:
        numbers = count(1)
        while not self.done.is_set():
            with suppress(psycopg.OperationalError), self._connect() as session:
                while not self.done.is_set():
                    number = next(numbers)
                    session.execute("INSERT INTO things VALUES (%s, %s)", (number, self.round))
                    session.execute("UPDATE things SET round = %s WHERE id = %s", (self.round, -(number % 100) - 1))
                    self.acknowledged.append(number)

    def _connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        return self._pipeline.servers.connect(self._pipeline.settings.source.dbname)


@contextmanager
def writing(pipeline: Pipeline) -> Iterator[Writer]:
    writer = Writer(pipeline)
    thread = threading.Thread(target=writer.run)
    thread.start()
    try:
        yield writer
    finally:
        writer.done.set()
        thread.join()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("times", [pytest.param(1, id="once"), further("ten times", 10)])
def test_promoted_standby_is_followed_on(
    times: int, pipeline: Pipeline, pair: PrimaryAndStandby, proxy: Proxy, spark: SparkSession
) -> None:
    """Nothing that was acknowledged is lost, nothing comes twice, and nobody has to do anything."""
    slot = pipeline.settings.source.slot
    bootstrap(pipeline, spark)
    with writing(pipeline) as writer, started(pipeline, spark, "lake") as following:
        for number in range(1, times + 1):
            pair.wait_for_slot(slot)
            proxy.point_at(None)
            port = pair.fail_over().postgres_port
            writer.round = number
            proxy.point_at(port)
            pair.rebuild_standby()
            until(partial(has_followed, pipeline, number), "the followers have rows of the new primary", every=0.5)
            assert following.is_running, following.failure
    check_nothing_is_lost(pipeline, writer)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert problems(pipeline) == []


def has_followed(pipeline: Pipeline, number: int) -> bool:
    return any(row["round"] == number for row in read_rows(pipeline, "public.things"))


def check_nothing_is_lost(pipeline: Pipeline, writer: Writer) -> None:
    with pipeline.servers.connect(pipeline.settings.source.dbname) as session:
        found = {row[0] for row in session.execute("SELECT id FROM things WHERE id > 0")}
    assert {*writer.acknowledged} <= found


def test_standby_that_lacks_commits_of_the_followers_is_told(
    pipeline: Pipeline, pair: PrimaryAndStandby, proxy: Proxy, spark: SparkSession
) -> None:
    """Nobody waited for the standby: the new primary has other commits at the LSNs of those that it lacks."""
    bootstrap(pipeline, spark)
    pair.wait_for_slot(pipeline.settings.source.slot)
    pair.stop_standby()
    pipeline.run("INSERT INTO things SELECT n, -1 FROM generate_series(1, 5000) AS n")
    catch_up(pipeline, spark)
    proxy.point_at(None)
    pair.kill_primary()
    port = pair.promote().postgres_port
    with pair.connect(pipeline.settings.source.dbname) as session:
        # beyond the LSNs that the followers have
        session.execute("INSERT INTO things SELECT n, -2 FROM generate_series(1, 20000) AS n")
    proxy.point_at(port)
    with pytest.raises(HistoryLostError, match="`cdc recapture`"):
        catch_up(pipeline, spark)
    recapture_all(pipeline, spark)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
