"""The admin client: reads, creates, configures and deletes topics."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._metadata import TopicMetadata
from confluent_kafka.cimpl import NewTopic

from cdc.core.errors import PreconditionError, UnreachableError
from cdc.core.waiting import wait_until
from cdc.log.clients.connection import REQUEST_SECONDS, Connection
from cdc.log.settings import LogSettings

GONE_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 10.0
"""How long to wait until all brokers know of a new topic."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is, or as it should be. `is_ordered`: what is in it is read in one order, from one partition."""

    name: str
    partitions: int
    replication_factor: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    is_ordered: bool = False


class Admin:
    """Administers topics."""

    def __init__(self, log: LogSettings) -> None:
        self._connection = Connection(log)
        with self._connection.translate_errors():
            self._client = AdminClient(self._connection.options())
        self._connection.attach(self._client)

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.__exit__(None, None, None)

    def topics(self, names: Sequence[str]) -> dict[str, Topic]:
        """Read the existing ones of these topics, with their partition counts."""
        found = self._list()
        return {name: Topic(name, len(found[name].partitions)) for name in names if name in found}

    def list_names(self, starts: tuple[str, ...]) -> list[str]:
        """The names of all topics that begin with one of these."""
        found = self._list()
        return sorted(name for name in found if name.startswith(starts))

    def _list(self) -> Mapping[str, TopicMetadata]:
        return self._connection.ask(lambda: self._client.list_topics(timeout=REQUEST_SECONDS)).topics

    def create(self, topics: Sequence[Topic]) -> None:
        """Create the topics; existing ones stay as they are."""
        new = [NewTopic(t.name, t.partitions, t.replication_factor, config=dict(t.config)) for t in topics]
        if not new:
            return
        with self._connection.translate_errors():
            for made in self._client.create_topics(new, request_timeout=REQUEST_SECONDS).values():
                # another bootstrap may have made it since this one looked
                _wait_for(made, KafkaError.TOPIC_ALREADY_EXISTS)

    def configure(self, topics: Sequence[Topic]) -> list[str]:
        """Set the configuration of existing topics; returns the names of those that had another."""
        others = [topic for topic, _ in self.find_misconfigured(topics)]
        changes = [_to_change(topic) for topic in others]
        with self._connection.translate_errors():
            if changes:
                # incremental: the older request resets every property that it does not name (KIP-339)
                for done in self._client.incremental_alter_configs(changes, request_timeout=REQUEST_SECONDS).values():
                    done.result()
        return [topic.name for topic in others]

    def find_misconfigured(self, topics: Sequence[Topic]) -> list[tuple[Topic, list[str]]]:
        """Of these existing topics, those whose configuration differs, with the names of the properties that do."""
        wanted = {ConfigResource(ConfigResource.Type.TOPIC, topic.name): topic for topic in topics}
        if not wanted:
            return []
        with self._connection.translate_errors():
            found = self._client.describe_configs([*wanted], request_timeout=REQUEST_SECONDS)
            stands = [(wanted[resource], _values(answer.result())) for resource, answer in found.items()]
        differing = [
            (topic, sorted(name for name, _ in topic.config.items() - values.items())) for topic, values in stands
        ]
        return [(topic, names) for topic, names in differing if names]

    def delete(self, names: Sequence[str]) -> None:
        """Delete the existing ones of these topics."""
        if not names:
            return
        with self._connection.translate_errors():
            for gone in self._client.delete_topics([*names], request_timeout=REQUEST_SECONDS).values():
                _wait_for(gone, KafkaError.UNKNOWN_TOPIC_OR_PART)

    def delete_wholly(self, names: Sequence[str]) -> None:
        """Delete topics, and wait until they are gone, which is after the brokers' answer.

        Raises UnreachableError when they do not go.
        """
        self.delete(names)
        if names and not wait_until(lambda: not self.topics(names), GONE_SECONDS):
            raise UnreachableError(f"topics {', '.join(names)} are deleted and do not go", "see the broker's log")


def ensure_topic(admin: Admin, wanted: Topic) -> bool:
    """Create the topic if it does not exist; returns whether it did. Raises PreconditionError for one that differs."""
    present = admin.topics([wanted.name]).get(wanted.name)
    if present is None:
        admin.create([wanted])
        # the answer comes before all brokers know the topic
        if not wait_until(lambda: wanted.name in admin.topics([wanted.name]), SETTLE_SECONDS):
            raise PreconditionError(f"topic {wanted.name} was made and is not there", "see the broker's log")
        return True
    if present.partitions != wanted.partitions:
        raise partition_count_error(wanted, present)
    return False


def compaction_config(log: LogSettings) -> dict[str, str]:
    """The configuration of a compacted topic."""
    kept = log.latest
    return {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": _milliseconds(kept.min_compaction_lag_seconds),
        "max.compaction.lag.ms": _milliseconds(kept.max_compaction_lag_seconds),
        "delete.retention.ms": _milliseconds(kept.delete_retention_seconds),
        "segment.ms": _milliseconds(kept.segment_seconds),
        "min.cleanable.dirty.ratio": str(kept.dirty_ratio),
        "max.message.bytes": str(kept.max_record_bytes),
    }


def partition_count_error(wanted: Topic, present: Topic) -> PreconditionError:
    """Make the error for a topic with another number of partitions: keys would move to other partitions."""
    return PreconditionError(
        f"topic {wanted.name} has {present.partitions} partitions, not {wanted.partitions}",
        "set log.partitions back: with another count, keys would move",
    )


def _milliseconds(seconds: int) -> str:
    return str(seconds * 1000)


def _values(entries: Mapping[str, ConfigEntry]) -> dict[str, str | None]:
    return {name: entry.value for name, entry in entries.items()}


def _to_change(topic: Topic) -> ConfigResource:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in topic.config.items()
    ]
    return ConfigResource(ConfigResource.Type.TOPIC, topic.name, incremental_configs=entries)


def _wait_for(asked: "Future[Any]", expected: int) -> None:
    """Wait for an answer, and ignore the `expected` error."""
    try:
        asked.result()
    except KafkaException as error:
        if error.args[0].code() != expected:
            raise
