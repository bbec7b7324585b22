"""Topics: looked at, made, deleted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import (
    TopicAlreadyExistsError,
)

from cdc.log.clients.connection import client_options, reported
from cdc.log.settings import LogSettings


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is, or as it should be."""

    name: str
    partitions: int
    replication_factor: int = 1
    config: Mapping[str, str] = field(default_factory=dict)


class Admin:
    """Topics: what is there, making them, taking them away."""

    def __init__(self, log: LogSettings) -> None:
        self._log = log
        with reported(log):
            self._client = KafkaAdminClient(**client_options(log))

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def topics(self, names: Sequence[str]) -> dict[str, Topic]:
        """Those of these topics that are there, with their partition counts."""
        with reported(self._log):
            existing = set(self._client.list_topics())
            wanted = [name for name in names if name in existing]
            found = self._client.describe_topics(wanted) if wanted else []
        return {t["name"]: Topic(t["name"], len(t["partitions"])) for t in found}

    def create(self, topics: Sequence[Topic]) -> None:
        """Make the topics; one that is there already stays as it is."""
        for topic in topics:
            with reported(self._log):
                self._create(topic)

    def _create(self, topic: Topic) -> None:
        new = NewTopic(topic.name, topic.partitions, topic.replication_factor, topic_configs=dict(topic.config))
        try:
            self._client.create_topics([new])
        except TopicAlreadyExistsError:
            return

    def delete(self, names: Sequence[str]) -> None:
        """Delete those of these topics that are there."""
        present = list(self.topics(names))
        if present:
            with reported(self._log):
                self._client.delete_topics(present)
