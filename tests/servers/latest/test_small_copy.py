"""Small copies of the latest log on a real broker: written without a Spark job, in one transaction."""

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from cdc.columns.rows.digest import SMALL_BYTES
from cdc.core import fail_points
from cdc.core.errors import CdcError
from cdc.log.names import latest_topic
from cdc.log.settings import LatestTopicSettings, LogSettings
from cdc.sinks.latest import small_copy
from cdc.sinks.latest.follower import LatestFollower
from tests.contract.fed import SmallCopy, copy_of, keyed
from tests.contract.followers import bookmark
from tests.servers.latest.play import MARK, ROWS, at, one, records, row
from tests.support.histories import THINGS
from tests.support.model import Key, Row


def small(rows: dict[Key, Row]) -> SmallCopy:
    return SmallCopy.of(THINGS, rows)


@pytest.fixture
def log(kafka_bootstrap: str) -> LogSettings:
    return LogSettings(bootstrap=kafka_bootstrap, prefix=f"l{uuid.uuid4().hex[:12]}")


@pytest.fixture
def follower(spark: SparkSession, log: LogSettings) -> Iterator[LatestFollower]:
    made = LatestFollower(spark, log, log.prefix, "latest")
    made.prepare([THINGS])
    yield made
    made.close()


def test_rows_and_tombstones_come_with_the_bookmark(
    follower: LatestFollower, spark: SparkSession, log: LogSettings
) -> None:
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    less: dict[Key, Row] = {(1,): row(1, "new"), (50,): row(50, "new"), (51,): row(51, "new")}
    follower.load(THINGS, small(less), bookmark(7))
    assert keyed(follower.rows(THINGS), THINGS) == less
    assert follower.bookmarks() == {THINGS.name: bookmark(7)}
    # a key has one partition, whoever writes it: what comes later replaces it
    follower.apply(one(THINGS, {(50,): None, (1,): row(1, "newer")}), at(1))
    assert keyed(follower.rows(THINGS), THINGS) == {(1,): row(1, "newer"), (51,): row(51, "new")}
    follower.load(THINGS, small({}), bookmark(8))
    assert keyed(follower.rows(THINGS), THINGS) == {}


def test_nobody_sees_half_of_it(follower: LatestFollower, log: LogSettings) -> None:
    follower.load(THINGS, small(ROWS), MARK)
    before = records(log, latest_topic(log.prefix, THINGS.name))
    fail_points.arm("latest.copy.written:raise")
    try:
        with pytest.raises((CdcError, OSError)):
            follower.load(THINGS, small({(99,): row(99, "half")}), bookmark(7))
    finally:
        fail_points.arm("")
    assert records(log, latest_topic(log.prefix, THINGS.name)) == before
    # begun, and not finished: it is copied again
    assert follower.bookmarks() == {}
    follower.load(THINGS, small(ROWS), bookmark(8))
    assert (keyed(follower.rows(THINGS), THINGS), follower.bookmarks()) == (ROWS, {THINGS.name: bookmark(8)})


def test_too_large_a_row_is_named(spark: SparkSession, log: LogSettings) -> None:
    tight = log.model_copy(update={"latest": LatestTopicSettings(max_record_bytes=2000)})
    follower = LatestFollower(spark, tight, log.prefix, "latest")
    follower.prepare([THINGS])
    follower.load(THINGS, small({**ROWS, (1,): row(1, "x" * 3000)}), MARK)
    [stop] = follower.stops().values()
    assert "too large" in str(stop)
    assert "where id = 1 → raise log.latest.max_record_bytes" in str(stop)
    follower.load(THINGS, small(ROWS), MARK)
    assert (follower.stops(), follower.bookmarks()) == ({}, {THINGS.name: MARK})
    follower.close()


def test_larger_ones_are_written_by_tasks(
    follower: LatestFollower, log: LogSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = latest_topic(log.prefix, THINGS.name)
    assert small_copy.find_small(small(ROWS), log, topic)
    assert small_copy.find_small(replace(small(ROWS), file_bytes=SMALL_BYTES + 1), log, topic) is None
    follower.load(THINGS, small(ROWS), MARK)
    monkeypatch.setattr(small_copy, "SMALL_ROWS", len(ROWS))
    # the records of the last copy, and the marker of its transaction
    assert small_copy.find_small(small(ROWS), log, topic) is None
