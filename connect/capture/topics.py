"""The topics of a pipeline: change topics that keep everything for a while, one that orders the commits."""

from collections.abc import Sequence

from cdc.core.errors import RECAPTURE, HistoryLostError, PreconditionError
from cdc.core.table import TableName
from cdc.log.clients.topics import Admin, Topic
from cdc.log.names import change_topic, check_distinct, debezium_heartbeat_topic, message_topic, transaction_topic
from cdc.log.settings import FRAME_BYTES, LogSettings

HOUR_MS = 3_600_000
TRANSACTION_RETENTION_FACTOR = 2
"""The order of commits is kept longer than the changes, never shorter: a change without its END is unreadable."""


def required_topics(
    log: LogSettings, tables: Sequence[TableName], beats: TableName, history: TableName, *, messages: bool = False
) -> list[Topic]:
    """The topics that capture writes to, as they should be; `beats` is the heartbeat table, `history` that of shapes.

    `messages`: also the one of what applications write by `pg_logical_emit_message`, which no follower reads. Raises
    PreconditionError when two tables would share a topic.
    """
    check_distinct(change_topic, log.prefix, [*tables, beats, history])
    retention = log.retention_hours * HOUR_MS
    # one partition: with three, ENDs came before their BEGINs and in another order than the commits (seen)
    ordering = Topic(
        transaction_topic(log.prefix),
        1,
        log.replication_factor,
        _retention_config(log, retention * TRANSACTION_RETENTION_FACTOR),
    )
    # of the order of its changes nothing may be lost: it is read by itself, and a shape is the last one of its table
    shapes = Topic(change_topic(log.prefix, history), 1, log.replication_factor, _retention_config(log, retention))
    # whoever follows the log reads both to see that it lacks nothing
    beating = [change_topic(log.prefix, beats), debezium_heartbeat_topic(log.prefix)]
    return [
        ordering,
        shapes,
        *(Topic(name, 1, log.replication_factor, _retention_config(log, retention)) for name in beating),
        *([Topic(message_topic(log.prefix), 1, log.replication_factor, _change_config(log))] if messages else []),
        *change_topics(log, tables),
    ]


def change_topics(log: LogSettings, tables: Sequence[TableName]) -> list[Topic]:
    """The change topics of these tables."""
    config = _change_config(log)
    return [Topic(change_topic(log.prefix, table), log.partitions, log.replication_factor, config) for table in tables]


def check(admin: Admin, topics: Sequence[Topic], *, ours: bool) -> list[str]:
    """Look at the topics that are there already; gives the names of those that have more partitions than they should,
    and are followed all the same.

    Raises PreconditionError when one is not `ours`, has fewer partitions, or several where the order needs one.
    """
    present = admin.topics([topic.name for topic in topics])
    for topic in topics:
        _check(topic, present.get(topic.name), ours)
    return [t.name for t in topics if t.name in present and present[t.name].partitions > t.partitions]


def ensure(admin: Admin, topics: Sequence[Topic]) -> list[str]:
    """Make the topics that are missing, and give the others the configuration that they should have; gives the names of
    those that had another."""
    present = admin.topics([topic.name for topic in topics])
    admin.create([topic for topic in topics if topic.name not in present])
    return admin.configure([topic for topic in topics if topic.name in present])


def _check(wanted: Topic, present: Topic | None, ours: bool) -> None:
    if present is None:
        return
    if not ours:
        raise PreconditionError(
            f"topic {wanted.name} is there already and is not this pipeline's",
            "choose another log.prefix, or delete it",
        )
    if wanted.partitions == 1 < present.partitions:
        raise HistoryLostError(
            f"topic {wanted.name} has {present.partitions} partitions: the order of what is in it needs a single one",
            RECAPTURE,
        )
    # where a key lies moves with the count, which is what adding partitions does, too: changes are put in order by
    # their transaction, whatever partition they come in. Fewer is no topic of ours
    if present.partitions < wanted.partitions:
        raise PreconditionError(
            f"topic {wanted.name} has {present.partitions} partitions, not {wanted.partitions}",
            "set log.partitions back: with another count, keys would move",
        )


def _change_config(log: LogSettings) -> dict[str, str]:
    # the broker's own bound is 1 MB
    return {
        **_retention_config(log, log.retention_hours * HOUR_MS),
        "max.message.bytes": str(log.max_row_bytes + FRAME_BYTES),
    }


def _retention_config(log: LogSettings, milliseconds: int) -> dict[str, str]:
    """Never compacted: a TRUNCATE has no key, which a compacted topic refuses. Retention goes by the broker's clock.

    All replicas but one have a message before it counts as written: what a single broker loses, another one has.
    """
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(milliseconds),
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": str(max(1, log.replication_factor - 1)),
    }
