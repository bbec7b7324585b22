"""Checks that no follower writes to a topic that is somebody else's."""

from collections.abc import Iterator, Mapping

from cdc.core.settings import Finding
from cdc.log.names import debezium_heartbeat_topic, message_topic, offsets_topic, positions_topic, transaction_topic
from cdc.log.settings import LogSettings
from cdc.sinks.percolator.settings import PercolatorSettings
from cdc.sinks.registry import FollowerSettings


def find_taken_topics(followers: Mapping[str, FollowerSettings], log: LogSettings) -> Iterator[Finding]:
    """The followers whose topic of matches is one of the capture's, or of another follower."""
    topics = (transaction_topic, message_topic, debezium_heartbeat_topic, offsets_topic)
    taken = {_as_in_metrics(topic): "the capture's" for topic in (name(log.prefix) for name in topics)}
    taken[_as_in_metrics(positions_topic(log.prefix))] = "the latest log's"
    for name, follower in followers.items():
        if not isinstance(follower, PercolatorSettings):
            continue
        events, *others = follower.topic_names(log.prefix, name)
        if _is_of_a_table(events, log.prefix):
            yield (name, "topic"), f"is named as topics of tables are; choose one without a dot behind '{log.prefix}.'"
        for topic in (events, *others):
            whose = taken.setdefault(_as_in_metrics(topic), f"that of '{name}'")
            if whose != f"that of '{name}'":
                yield (name, "topic"), f"would be {whose}: {topic}"


def _is_of_a_table(topic: str, prefix: str) -> bool:
    return topic.startswith(f"{prefix}.") and "." in topic.removeprefix(f"{prefix}.")


def _as_in_metrics(topic: str) -> str:
    """Kafka refuses topics that differ by dots and underscores only."""
    return topic.replace(".", "_")
