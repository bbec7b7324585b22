"""The one place that touches kafka-python, which is untyped: a typed edge of what the toolkit needs of Kafka."""

import logging
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import (
    BrokerResponseError,
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerFencedError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from cdc.core.errors import CdcError, PreconditionError, RefusedError, UnreachableError
from cdc.log.settings import LogSettings

REQUEST_MS, BOOTSTRAP_MS = 30_000, 10_000
STALL_SECONDS = 60.0
FLUSH_SECONDS, CLOSE_SECONDS = 60.0, 5.0
TRANSACTION_MS = 15 * 60_000
"""The longest that a broker lets a transaction be, unless its `transaction.max.timeout.ms` says otherwise."""
BUFFER_BYTES = 16 * 1024 * 1024
TOO_LARGE_REMEDY = "raise log.latest.max_record_bytes, and max.message.bytes of the topics that are there"
FENCED = (ProducerFencedError, InvalidProducerEpochError)

logging.getLogger("kafka").addHandler(logging.NullHandler())


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
        "bootstrap_timeout_ms": BOOTSTRAP_MS,
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
def reported(log: LogSettings) -> Iterator[None]:
    """Raise what kafka-python raises as a CdcError."""
    try:
        yield
    except KafkaError as error:
        raise _as_ours(log, error) from error


def _as_ours(log: LogSettings, error: KafkaError) -> CdcError:
    reason = str(error) or type(error).__name__
    if isinstance(error, UnknownTopicOrPartitionError):
        return PreconditionError(f"Kafka {log.bootstrap}: no such topic: {reason}", "run `cdc bootstrap`")
    if isinstance(error, MessageSizeTooLargeError):
        return PreconditionError(f"Kafka {log.bootstrap}: a record is too large: {reason}", TOO_LARGE_REMEDY)
    if isinstance(error, BrokerResponseError) and not error.retriable:
        return PreconditionError(f"Kafka {log.bootstrap} refused a request: {reason}", "see the broker's log")
    return UnreachableError(f"Kafka {log.bootstrap} does not answer: {reason}", "check log.bootstrap; is it running?")


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


class Reader:
    """Reads records of partitions that it is told, `committed` ones only; belongs to no group, commits nothing."""

    def __init__(self, log: LogSettings, *, committed: bool = True) -> None:
        self._log = log
        with reported(log):
            self._consumer = KafkaConsumer(
                **client_options(log),
                isolation_level="read_committed" if committed else "read_uncommitted",
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
        with reported(self._log):
            return sorted(self._consumer.partitions_for_topic(topic) or ())

    def beginning(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """The first offset that is still there, per topic and partition."""
        return self._bounds(topics, self._consumer.beginning_offsets)

    def end(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """The offset behind the last record that this reader may see, per topic and partition."""
        return self._bounds(topics, self._consumer.end_offsets)

    def _bounds(self, topics: Sequence[str], ask: Any) -> dict[str, dict[int, int]]:
        places = [TopicPartition(topic, p) for topic in topics for p in self.partitions(topic)]
        bounds: dict[str, dict[int, int]] = {topic: {} for topic in topics}
        with reported(self._log):
            for place, offset in (ask(places) if places else {}).items():
                bounds[place.topic][place.partition] = offset
        return bounds

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        """Committed records with start ≤ offset < end, in order; offsets have gaps (transaction markers).

        Raises UnreachableError when nothing comes for STALL_SECONDS: the consumer itself waits for ever.
        """
        place = TopicPartition(topic, partition)
        if start >= end:
            return
        with reported(self._log):
            self._consumer.assign([place])
            self._consumer.seek(place, start)
            reached, moved = start, time.monotonic()
            while (at := self._consumer.position(place)) < end:
                if at > reached:
                    reached, moved = at, time.monotonic()
                if time.monotonic() - moved > STALL_SECONDS:
                    raise UnreachableError(f"{topic} stands still at {at} of {end}", "is every broker running?")
                for message in self._consumer.poll(timeout_ms=1000, max_records=5000).get(place, []):
                    if message.offset >= end:
                        return
                    yield Record(topic, partition, message.offset, message.key, message.value)


class TransactionalWriter:
    """Writes records in transactions; a later writer with the same id fences this one off (KIP-98).

    Records are buffered up to BUFFER_BYTES, whatever a transaction's size. After an error the writer is of no further
    use: close it; making the next one aborts what this one left open.
    """

    def __init__(self, log: LogSettings, transactional_id: str) -> None:
        self._log = log
        self._id = transactional_id
        self._failure: Exception | None = None
        self._buffered = 0
        with reported(log):
            self._producer = KafkaProducer(
                **client_options(log),
                transactional_id=transactional_id,
                transaction_timeout_ms=TRANSACTION_MS,
                delivery_timeout_ms=int(FLUSH_SECONDS * 1000),
                acks="all",
                max_request_size=log.latest.max_record_bytes,
                compression_type="lz4",
                linger_ms=20,
                batch_size=256 * 1024,
            )
            # fenced is fenced: kafka-python would try for a new epoch, or an id that fences whoever replaced us
            self._producer._transaction_manager._supports_epoch_bump = lambda: False
            self._producer.init_transactions()

    def __enter__(self) -> "TransactionalWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections and of what is not sent yet."""
        self._producer._sender.force_close()
        with suppress(KafkaError):
            self._producer.close(CLOSE_SECONDS)

    @contextmanager
    def transaction(self) -> Iterator["TransactionalWriter"]:
        """All records written inside become visible together, or none of them.

        Raises RefusedError when a later writer has taken over, PreconditionError when the broker has given the
        transaction up or refuses a record, UnreachableError when it does not answer.
        """
        began = time.monotonic()
        try:
            self._producer.begin_transaction()
            yield self
            self._flush()
            self._end("begin_commit", REQUEST_MS / 1000)
        except KafkaError as error:
            self._abort()
            raise self._judged(error, time.monotonic() - began) from error
        except BaseException:
            self._abort()
            raise

    def write(self, topic: str, key: bytes, value: bytes | None) -> None:
        """Add a record to the transaction; a record that the broker refuses fails the transaction, not this call."""
        self._producer.send(topic, key=key, value=value).add_errback(self._failed)
        self._buffered += len(key) + len(value or b"")
        if self._buffered > BUFFER_BYTES:
            self._flush()

    def _failed(self, error: Exception) -> None:
        self._failure = self._failure or error

    def _flush(self) -> None:
        self._producer.flush(FLUSH_SECONDS)
        self._buffered = 0
        if self._failure:
            raise self._failure

    def _end(self, how: str, seconds: float) -> None:
        """Commit or abort, as the producer's own methods do, which wait for ever when no broker answers."""
        result = getattr(self._producer._transaction_manager, how)()
        self._producer._sender.wakeup()
        if not result.wait(timeout_ms=seconds * 1000):
            raise KafkaTimeoutError(f"no answer to the end of a transaction in {seconds:.0f} s")

    def _abort(self) -> None:
        with suppress(KafkaError):
            self._end("begin_abort", CLOSE_SECONDS)

    def _judged(self, error: KafkaError, seconds: float) -> CdcError:
        found = (error, self._failure, self._producer._transaction_manager.last_error)
        if not any(isinstance(each, FENCED) for each in found):
            return _as_ours(self._log, error)
        if seconds * 1000 > TRANSACTION_MS:
            return PreconditionError(
                f"Kafka gave up a transaction of {self._id} after {seconds:.0f} s",
                "follow more often: batches get smaller",
            )
        return RefusedError(
            f"another writer has taken over as {self._id}", "stop the other `cdc follow`, then start again"
        )
