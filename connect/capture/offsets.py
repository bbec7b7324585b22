"""Forgets how far a connector has read: in its own topic of offsets, and in Kafka Connect's."""

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.debezium_properties import OFFSETS_TOPIC
from cdc.connect.capture.topics import offsets_topic_of
from cdc.core.fail_points import reach
from cdc.log.clients.reader import Reader
from cdc.log.clients.topics import Admin, Topic, ensure_topic
from cdc.log.settings import LogSettings


def forget_offsets(client: ConnectClient, name: str, log: LogSettings) -> None:
    """Forget the offsets of a stopped connector, which then needs its configuration again.

    `log`: of the pipeline that the connector captures for.
    """
    config = client.config(name) or {}
    # Kafka Connect (4.3.1) forgets none of a connector with a topic of its own: its tombstones for that topic come
    # behind the end of their transaction
    client.put(name, {key: value for key, value in config.items() if key != OFFSETS_TOPIC})
    client.delete_offsets(name)
    reach("offsets.deleted")
    _empty(offsets_topic_of(log), log)


def _empty(topic: Topic, log: LogSettings) -> None:
    """Make the topic anew if it has records: those of a compacted topic cannot be deleted."""
    with Admin(log) as admin:
        if topic.name in admin.topics([topic.name]) and _has_records(topic.name, log):
            admin.delete_wholly([topic.name])
            ensure_topic(admin, topic)


def _has_records(topic: str, log: LogSettings) -> bool:
    with Reader(log, committed=False) as reader:
        return any(reader.end([topic])[topic].values())
