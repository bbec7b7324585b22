"""The promise of a compacted topic: once the broker has cleaned it, reading it from the beginning gives the table."""

import time
import uuid

from pyspark.sql import SparkSession

from cdc.log.names import latest_topic, positions_topic
from cdc.log.settings import LatestTopicSettings, LogSettings
from cdc.sinks.latest.follower import LatestFollower
from tests.contract.fed import keyed
from tests.servers.latest.play import ROWS, at, loaded, one, records, row
from tests.support.histories import THINGS
from tests.support.model import Key, Row

COMPACTED_WITHIN_SECONDS = 240.0


def test_after_compaction_the_topic_is_the_table(spark: SparkSession, kafka_bootstrap: str) -> None:
    """Segments of a second, so that compaction reaches what is written; the newest segment never is."""
    often = LatestTopicSettings(
        segment_seconds=1, max_compaction_lag_seconds=1, delete_retention_seconds=1, dirty_ratio=0.01
    )
    log = LogSettings(bootstrap=kafka_bootstrap, prefix=f"l{uuid.uuid4().hex[:12]}", partitions=1, latest=often)
    follower = LatestFollower(spark, log, log.prefix, "latest")
    model = dict(ROWS)
    loaded(spark, follower, THINGS)
    offset, topic = 0, latest_topic(log.prefix, THINGS.name)
    deadline = time.monotonic() + COMPACTED_WITHIN_SECONDS
    written = len(ROWS)
    while len(records(log, topic)) > written // 3 or offset < 20:
        assert time.monotonic() < deadline, "compaction has not run"
        offset += 1
        states: dict[Key, Row | None] = {(n,): row(n, f"at {offset}") for n in range(10) if (n + offset) % 3}
        states[(offset % 10,)] = None
        follower.apply(one(THINGS, states), at(offset))
        written += len(states)
        # the cleaner wants a new segment now and then, not as many as can be
        time.sleep(0.5)
        model = {key: found for key, found in {**model, **states}.items() if found is not None}
    newest = {record.key: record.value for record in records(log, topic)}
    assert len([value for value in newest.values() if value is not None]) == len(model)
    assert keyed(follower.rows(THINGS), THINGS) == model
    assert len(records(log, positions_topic(log.prefix))) < offset
    follower.close()
    assert LatestFollower(spark, log, log.prefix, "latest").position() == at(offset)
