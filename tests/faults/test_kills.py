"""SIGKILL at the worst moments while writes go on, then the same command again: nothing is lost, nothing there twice.

CDC_TEST_CHANGES and CDC_TEST_KILLS make it as long as wanted.
"""

import logging
import os
import random
from collections.abc import Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc.core.position import Bookmark
from cdc.core.table import TableName
from tests.support.cdc_inprocess import bootstrap, catch_up, verify
from tests.support.further import further
from tests.support.kill_points import Commits, Moment, kill, said, writes
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.workload import ITEMS, ORDERS, SCHEMA, Workload

CHANGES = int(os.environ.get("CDC_TEST_CHANGES", "600"))
KILLS = int(os.environ.get("CDC_TEST_KILLS", "2"))
pytestmark = pytest.mark.timeout(1800 + 600 * KILLS)

_log = logging.getLogger(__name__)


def lake_folder(pipeline: Pipeline) -> Path:
    return pipeline.config.parent / "lake"


def bootstrap_moments(pipeline: Pipeline) -> Iterator[tuple[str, Moment]]:
    yield "its slot is there", partial(said, "slot cdc_")
    yield "a table is in the lake", Commits(lake_folder(pipeline) / "public/orders")
    yield "the lake is full, the others are not", partial(said, "filling search")


def follow_moments(pipeline: Pipeline) -> Iterator[tuple[str, Moment]]:
    """One after the other, from the beginning again after the last."""
    for table in cycle(("_cdc/cuts", "public/items", "public/orders")):
        yield f"{table} has a new commit", Commits(lake_folder(pipeline) / table)


@pytest.mark.parametrize("kills", [pytest.param(KILLS, id="some"), further("many", 3 * KILLS)])
def test_bootstrap_and_follow_survive_kills(make_pipeline: MakePipeline, spark: SparkSession, kills: int) -> None:
    """Many kills come to all moments of a follow; the one that some leave out comes with a lake on an object store."""
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS))
    work = Workload(pipeline.connection, random.Random(9))
    lake, finished = pipeline.opened().lake_follower, dict[TableName, Bookmark]()
    for what, moment in bootstrap_moments(pipeline):
        kill(pipeline, "bootstrap", what, moment)
        assert finished.items() <= lake.bookmarks().items()
        finished = lake.bookmarks()
        work.write(30)
    bootstrap(pipeline, spark)
    assert finished == lake.bookmarks()
    for nth, (what, moment) in enumerate(islice(follow_moments(pipeline), kills), 1):
        with writes(work, CHANGES * nth // kills):
            kill(pipeline, "follow", what, moment)
    catch_up(pipeline, spark)
    report = verify(pipeline, spark)
    assert report.is_equal, report
    _log.info("%s changes, %s times killed: %s", work.changes, kills, report.as_json())
    assert not bootstrap(pipeline, spark).has_changed
