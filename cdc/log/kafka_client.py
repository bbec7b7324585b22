"""The one place that touches kafka-python, which is untyped: a typed edge of what the toolkit needs of Kafka."""

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.log.settings import LogSettings

REQUEST_MS = 30_000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is, or as it should be."""

    name: str
    partitions: int
    replication_factor: int = 1
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """One message: where it lies, and its bytes; a null value is a tombstone."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def client_options(log: LogSettings) -> dict[str, Any]:
    """How any of kafka-python's clients reaches the cluster."""
    options: dict[str, Any] = {
        "bootstrap_servers": log.bootstrap.split(","),
        "security_protocol": log.security_protocol,
        "request_timeout_ms": REQUEST_MS,
        "client_id": "cdc",
    }
    if log.sasl_mechanism:
        password = log.password.get_secret_value() if log.password else None
        options |= {
            "sasl_mechanism": log.sasl_mechanism,
            "sasl_plain_username": log.username,
            "sasl_plain_password": password,
        }
    if "SSL" in log.security_protocol:
        options["ssl_context"] = ssl.create_default_context(cafile=log.ca_file)
    return options


@contextmanager
def _reported(log: LogSettings) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise _as_ours(log, error) from error


def _as_ours(log: LogSettings, error: KafkaError) -> CdcError:
    reason = str(error) or type(error).__name__
    if isinstance(error, UnknownTopicOrPartitionError):
        return PreconditionError(f"Kafka {log.bootstrap}: no such topic: {reason}", "run `cdc bootstrap`")
    return UnreachableError(f"Kafka {log.bootstrap} does not answer: {reason}", "check log.bootstrap; is it running?")


class Admin:
    """Topics: what is there, making them, taking them away."""

    def __init__(self, log: LogSettings) -> None:
        self._log = log
        with _reported(log):
            self._client = KafkaAdminClient(**client_options(log))

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def topics(self, names: Sequence[str]) -> dict[str, Topic]:
        """Those of these topics that are there, with their partition counts."""
        with _reported(self._log):
            existing = set(self._client.list_topics())
            wanted = [name for name in names if name in existing]
            found = self._client.describe_topics(wanted) if wanted else []
        return {t["name"]: Topic(t["name"], len(t["partitions"])) for t in found}

    def create(self, topics: Sequence[Topic]) -> None:
        """Make the topics; one that is there already stays as it is."""
        for topic in topics:
            with _reported(self._log):
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
            with _reported(self._log):
                self._client.delete_topics(present)


class Reader:
    """Reads committed records of partitions that it is told; it belongs to no group and commits nothing."""

    def __init__(self, log: LogSettings) -> None:
        self._log = log
        with _reported(log):
            self._consumer = KafkaConsumer(
                **client_options(log),
                isolation_level="read_committed",
                enable_auto_commit=False,
                group_id=None,
                auto_offset_reset="none",
            )

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, none when there is no such topic."""
        with _reported(self._log):
            return sorted(self._consumer.partitions_for_topic(topic) or ())

    def beginning(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """The first offset that is still there, per topic and partition."""
        return self._bounds(topics, self._consumer.beginning_offsets)

    def end(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """The offset behind the last stable record, per topic and partition."""
        return self._bounds(topics, self._consumer.end_offsets)

    def _bounds(self, topics: Sequence[str], ask: Any) -> dict[str, dict[int, int]]:
        places = [TopicPartition(topic, p) for topic in topics for p in self.partitions(topic)]
        bounds: dict[str, dict[int, int]] = {topic: {} for topic in topics}
        with _reported(self._log):
            for place, offset in (ask(places) if places else {}).items():
                bounds[place.topic][place.partition] = offset
        return bounds

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        """Committed records with start ≤ offset < end, in order; offsets have gaps (transaction markers)."""
        place = TopicPartition(topic, partition)
        if start >= end:
            return
        with _reported(self._log):
            self._consumer.assign([place])
            self._consumer.seek(place, start)
            while self._consumer.position(place) < end:
                for message in self._consumer.poll(timeout_ms=1000, max_records=5000).get(place, []):
                    if message.offset >= end:
                        return
                    yield Record(topic, partition, message.offset, message.key, message.value)


class TransactionalWriter:
    """Writes records in transactions; a later writer with the same id fences this one off (KIP-98)."""

    def __init__(self, log: LogSettings, transactional_id: str) -> None:
        self._log = log
        with _reported(log):
            self._producer = KafkaProducer(
                **client_options(log),
                transactional_id=transactional_id,
                acks="all",
                compression_type=None,
                linger_ms=20,
                batch_size=256 * 1024,
            )
            self._producer.init_transactions()

    def __enter__(self) -> "TransactionalWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    @contextmanager
    def transaction(self) -> Iterator["TransactionalWriter"]:
        """All records written inside become visible together, or none of them."""
        with _reported(self._log):
            self._producer.begin_transaction()
            try:
                yield self
                self._producer.commit_transaction()
            except BaseException:
                self._producer.abort_transaction()
                raise

    def write(self, topic: str, key: bytes, value: bytes | None) -> None:
        self._producer.send(topic, key=key, value=value)
