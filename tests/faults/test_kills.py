"""SIGKILL at the worst moments while writes go on, then the same command again: nothing is lost, nothing there twice.

CDC_TEST_CHANGES and CDC_TEST_KILLS make it as long as wanted.
"""

import logging
import os
import random
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Final

import pytest
from pyspark.sql import SparkSession

from cdc.core.fail_points import FailPoint
from cdc.core.position import Bookmark
from cdc.core.table import TableName
from tests.support.cdc_inprocess import bootstrap, catch_up, verify
from tests.support.further import further
from tests.support.kill_points import kill, writes
from tests.support.parts.pipelines import MakePipeline
from tests.support.workload import ITEMS, ORDERS, SCHEMA, Workload

CHANGES = int(os.environ.get("CDC_TEST_CHANGES", "600"))
KILLS = int(os.environ.get("CDC_TEST_KILLS", "1"))
pytestmark = pytest.mark.timeout(1800 + 600 * KILLS)

_log = logging.getLogger(__name__)


IN_BOOTSTRAP: Final[tuple[FailPoint, ...]] = ("slot.made", "copy.loaded", "bootstrap.views")
"""Its slot is there; a table is in the lake; the lake is full, and the others are not."""
IN_FOLLOW: Final[tuple[FailPoint, ...]] = ("lake.cut.after", "lake.table.committed")
"""Followers lack a cut; a table is ahead of the others. From the beginning again after the last."""


@pytest.mark.parametrize(
    ("points", "kills"),
    [pytest.param(IN_BOOTSTRAP[:2], KILLS, id="some"), further("many", IN_BOOTSTRAP, 6 * KILLS)],
)
def test_bootstrap_and_follow_survive_kills(
    make_pipeline: MakePipeline, spark: SparkSession, points: Sequence[FailPoint], kills: int
) -> None:
    """Many kills come to all moments of a bootstrap and a follow. Of those that some leave out, the follow's comes with
    a lake on an object store; what the bootstrap's leaves behind, `test_lost_data.py` makes by an exception.
    """
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS))
    work = Workload(pipeline.connection, random.Random(9))
    lake, finished = pipeline.opened().lake_follower, dict[TableName, Bookmark]()
    for point in points:
        kill(pipeline, "bootstrap", point)
        assert finished.items() <= lake.bookmarks().items()
        finished = lake.bookmarks()
        work.write(30)
    bootstrap(pipeline, spark)
    # what was whole is not copied again
    assert finished.items() <= lake.bookmarks().items()
    for nth, point in enumerate(islice(cycle(IN_FOLLOW), kills), 1):
        with writes(work, CHANGES * nth // kills):
            kill(pipeline, "follow", point)
    catch_up(pipeline, spark)
    report = verify(pipeline, spark)
    assert report.is_equal, report
    _log.info("%s changes, %s times killed: %s", work.changes, kills, report.as_json())
    assert not bootstrap(pipeline, spark).has_changed
