"""The topics that the capture writes: change topics with time-based retention, and the transaction topic."""

from collections.abc import Mapping, Sequence

from cdc.core.errors import RECAPTURE, HistoryLostError, PreconditionError
from cdc.core.table import TableName
from cdc.log.clients.topics import Admin, Topic, partition_count_error
from cdc.log.names import (
    change_topic,
    check_distinct,
    debezium_heartbeat_topic,
    message_topic,
    offsets_topic,
    transaction_topic,
)
from cdc.log.settings import FRAME_BYTES, LogSettings

HOUR_MS = 3_600_000
TRANSACTION_RETENTION_FACTOR = 2
"""The transaction topic outlives the change topics: a change without its END cannot be read."""
OFFSETS_SEGMENT_BYTES = 16 * 1024 * 1024


def required_topics(
    log: LogSettings,
    tables: Sequence[TableName],
    beats: TableName,
    history: TableName,
    *,
    messages: bool = False,
) -> list[Topic]:
    """List the topics of the capture with their configuration.

    `beats`: the heartbeat table. `history`: the table of shapes. `messages`: also the topic of
    `pg_logical_emit_message`, which no follower reads. Raises PreconditionError when two tables would share a topic.
    """
    check_distinct(change_topic, log.prefix, [*tables, beats, history])
    # one partition: with three we saw ENDs before their BEGINs, and in another order than the commits
    ordering = Topic(
        transaction_topic(log.prefix),
        1,
        log.replication_factor,
        _retention_config(log, log.retention_hours * HOUR_MS * TRANSACTION_RETENTION_FACTOR),
        is_ordered=True,
    )
    # one partition: the schema history is read in its own order, and the last shape of a table counts
    shapes = _ordered_topic(log, change_topic(log.prefix, history))
    # followers read both to detect lost changes
    beating = [change_topic(log.prefix, beats), debezium_heartbeat_topic(log.prefix)]
    return [
        ordering,
        shapes,
        *(_ordered_topic(log, name) for name in beating),
        *([Topic(message_topic(log.prefix), 1, log.replication_factor, _change_config(log))] if messages else []),
        offsets_topic_of(log),
        *change_topics(log, tables),
    ]


def _ordered_topic(log: LogSettings, name: str) -> Topic:
    config = _retention_config(log, log.retention_hours * HOUR_MS)
    return Topic(name, 1, log.replication_factor, config, is_ordered=True)


def offsets_topic_of(log: LogSettings) -> Topic:
    """The topic of the connector's offsets."""
    # the connector reads all of it before it starts, and compaction leaves the newest segment alone: 1 GB by default
    config = {"cleanup.policy": "compact", "segment.bytes": str(OFFSETS_SEGMENT_BYTES), **_insync_config(log)}
    return Topic(offsets_topic(log.prefix), 1, log.replication_factor, config)


def change_topics(log: LogSettings, tables: Sequence[TableName]) -> list[Topic]:
    """List the change topics of these tables."""
    config = _change_config(log)
    return [Topic(change_topic(log.prefix, table), log.partitions, log.replication_factor, config) for table in tables]


def check(admin: Admin, topics: Sequence[Topic], *, ours: bool) -> list[str]:
    """Check the existing topics; returns the names of those with more partitions than configured, which is allowed.

    Raises PreconditionError when one is not `ours` or has fewer partitions, HistoryLostError when one that needs a
    single partition has several.
    """
    present = admin.topics([topic.name for topic in topics])
    check_present(topics, present, ours=ours)
    return [t.name for t in topics if t.name in present and present[t.name].partitions > t.partitions]


def check_present(topics: Sequence[Topic], present: Mapping[str, Topic], *, ours: bool) -> None:
    """Check the `present` ones of these topics, by name. Raises like `check`."""
    for topic in topics:
        _check(topic, present.get(topic.name), ours=ours)


def find_split(topics: Sequence[Topic], present: Mapping[str, Topic]) -> list[str]:
    """The names of those topics that need a single partition, and have several."""
    return [t.name for t in topics if t.is_ordered and t.name in present and present[t.name].partitions > 1]


def ensure(admin: Admin, topics: Sequence[Topic]) -> list[str]:
    """Create the missing topics, and correct the configuration of the others; returns the names of corrected ones."""
    present = admin.topics([topic.name for topic in topics])
    admin.create([topic for topic in topics if topic.name not in present])
    return admin.configure([topic for topic in topics if topic.name in present])


def _check(wanted: Topic, present: Topic | None, *, ours: bool) -> None:
    if present is None:
        return
    if not ours:
        raise PreconditionError(
            f"topic {wanted.name} is there already and is not this pipeline's",
            "choose another log.prefix, or delete it",
        )
    if wanted.is_ordered and present.partitions > 1:
        raise HistoryLostError(
            f"topic {wanted.name} has {present.partitions} partitions: the order of what is in it needs a single one",
            RECAPTURE,
        )
    # More partitions are fine: keys move to other partitions, but changes are ordered by their transaction. Kafka never
    # removes partitions, so a topic with fewer is not the one that we created.
    if present.partitions < wanted.partitions:
        raise partition_count_error(wanted, present)


def _change_config(log: LogSettings) -> dict[str, str]:
    # the broker's own bound is 1 MB
    return {
        **_retention_config(log, log.retention_hours * HOUR_MS),
        "max.message.bytes": str(log.max_row_bytes + FRAME_BYTES),
    }


def _retention_config(log: LogSettings, milliseconds: int) -> dict[str, str]:
    """Make a retention configuration: by the broker's clock, and never compacted, since a TRUNCATE has no key.

    `min.insync.replicas` is all replicas but one: a message survives the loss of a broker.
    """
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(milliseconds),
        "message.timestamp.type": "LogAppendTime",
        **_insync_config(log),
    }


def _insync_config(log: LogSettings) -> dict[str, str]:
    return {"min.insync.replicas": str(max(1, log.replication_factor - 1))}
