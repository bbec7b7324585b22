"""SIGKILL at the worst moments while writes go on, then the same command again: nothing is lost, nothing there twice.

CDC_TEST_CHANGES and CDC_TEST_KILLS make it as long as wanted.
"""

import json
import logging
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc.core.position import Bookmark
from cdc.core.table import TableName
from cdc.run.pipeline import delta_follower
from tests.commands import Running, cdc, started
from tests.pipelines import MakePipeline, Pipeline
from tests.servers.workload import ITEMS, ORDERS, SCHEMA, Workload
from tests.verbs import booted, caught_up

CHANGES = int(os.environ.get("CDC_TEST_CHANGES", "2000"))
KILLS = int(os.environ.get("CDC_TEST_KILLS", "3"))
pytestmark = pytest.mark.timeout(1800 + 200 * KILLS)

_log = logging.getLogger(__name__)
Moment = Callable[[Running], bool]


def said(text: str, running: Running) -> bool:
    return text in running.said


class Commits:
    """Has a table of the lake more commits than when it was looked at first?"""

    def __init__(self, pipeline: Pipeline, table: str) -> None:
        self._log = pipeline.config.parent / "lake" / Path(table) / "_delta_log"
        self._before = self._count()

    def __call__(self, _: Running) -> bool:
        return self._count() > self._before

    def _count(self) -> int:
        return len(list(self._log.glob("*.json")))


def bootstrap_moments(pipeline: Pipeline) -> Iterator[tuple[str, Moment]]:
    yield "its slot is there", partial(said, "slot cdc_")
    yield "a table is in the lake", Commits(pipeline, "public/orders")
    yield "the lake is full, the others are not", partial(said, "filling search")


def follow_moments(pipeline: Pipeline) -> Iterator[tuple[str, Moment]]:
    """One after the other, from the beginning again after the last."""
    for table in cycle(("public/orders", "_cdc/cuts", "public/items")):
        yield f"{table} has a new commit", Commits(pipeline, table)


@contextmanager
def writes(work: Workload, changes: int) -> Iterator[None]:
    """So many changes beside what is done here; all are written at the end."""

    def write() -> None:
        while work.changes < changes:
            work.write(20)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def kill(pipeline: Pipeline, verb: str, what: str, moment: Moment) -> None:
    with started(pipeline, verb) as running:
        running.wait_until(partial(moment, running), what)


def test_bootstrap_and_follow_survive_being_killed(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS))
    work = Workload(pipeline.connection, random.Random(9))
    lake, finished = delta_follower(pipeline.settings), dict[TableName, Bookmark]()
    for what, moment in bootstrap_moments(pipeline):
        kill(pipeline, "bootstrap", what, moment)
        assert finished.items() <= lake.bookmarks().items()
        finished = lake.bookmarks()
        work.write(30)
    booted(pipeline, spark)
    assert finished == lake.bookmarks()
    for nth, (what, moment) in enumerate(islice(follow_moments(pipeline), KILLS), 1):
        with writes(work, CHANGES * nth // KILLS):
            kill(pipeline, "follow", what, moment)
    caught_up(pipeline, spark)
    ended = cdc(pipeline, "verify", "--json")
    assert json.loads(ended.stdout)["equal"], ended.stdout
    assert ended.returncode == 0
    _log.info("%s changes, %s times killed: %s", work.changes, KILLS, ended.stdout)
    assert not booted(pipeline, spark).changed
