"""Writes records in transactions, one writer at a time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.core.waiting import Deadline
from cdc.log.clients.connection import TOO_LARGE, UNKNOWN, Connection, no_such_topic
from cdc.log.settings import LogSettings

FLUSH_SECONDS, COMMIT_SECONDS, CLOSE_SECONDS = 60.0, 90.0, 5.0
INIT_SECONDS = 30.0
TRANSACTION_MS = 15 * 60_000
"""The longest transaction: the brokers' default of `transaction.max.timeout.ms`."""
BUFFER_BYTES = 16 * 1024 * 1024
NO_TOPIC: Final = UNKNOWN | {KafkaError._UNKNOWN_PARTITION}
"""What new metadata say of the records for a topic that is deleted; a consumer may hear the last of a new one."""
FENCED: Final = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


class RecordRefusedError(PreconditionError):
    """A broker or the client refuses a record; without it, the transaction's other records may be written."""

    def __init__(self, refusal: CdcError, topic: str, key: bytes | None) -> None:
        super().__init__(refusal.what, refusal.remedy)
        self.topic = topic
        self.key = key


class WriterFencedError(CdcError):
    """A broker takes no more of this writer: one that was opened later has its id. Who that is, it does not say."""


@dataclass(frozen=True, slots=True)
class _RefusedRecord:
    error: KafkaError
    topic: str
    key: bytes | None


class TransactionalWriter:
    """Writes records in transactions; a later writer with the same id fences this one (KIP-98).

    It buffers up to BUFFER_BYTES, or two of the largest records, whatever a transaction's size. After an error close
    the writer; the next one aborts its open transaction. Raises WriterFencedError when another one comes first.
    """

    def __init__(self, log: LogSettings, transactional_id: str) -> None:
        self._log = log
        self._id = transactional_id
        self._connection = Connection(log)
        self._refused: _RefusedRecord | None = None
        self._missing: str | None = None
        self._broken = self._fenced = False
        with self._connection.translate_errors():
            self._producer = Producer(self._options())
            self._connection.attach(self._producer)
            try:
                self._init()
            except BaseException:
                self._drop_producer()
                raise

    def _init(self) -> None:
        try:
            self._producer.init_transactions(INIT_SECONDS)
        except KafkaException as error:
            if error.args[0].code() in FENCED:
                raise self._to_cdc_error(error.args[0], 0) from error
            self._producer.poll(0)
            raise

    def _options(self) -> dict[str, object]:
        return {
            **self._connection.options(),
            "transactional.id": self._id,
            "transaction.timeout.ms": TRANSACTION_MS,
            "delivery.timeout.ms": round(FLUSH_SECONDS * 1000),
            "message.max.bytes": self._log.latest.max_record_bytes,
            # librdkafka refuses a record larger than its buffer, even if that is empty
            "queue.buffering.max.kbytes": max(BUFFER_BYTES, 2 * self._log.latest.max_record_bytes) // 1024,
            # for so long a missing topic counts as one that is being made: who makes one of ours waits for it
            "topic.metadata.propagation.max.ms": 3_000,
            # else a deleted topic's records wait for their time limit: the broker attempts to add none of the
            # transaction's partitions, and only new metadata tell the client why
            "topic.metadata.refresh.interval.ms": 5_000,
            # the partitioner of Kafka's Java client, which wrote the copy: a key must stay in its partition
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 20,
            "batch.size": 256 * 1024,
            "on_delivery": self._on_delivery,
            "delivery.report.only.error": True,
        }

    def __enter__(self) -> "TransactionalWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and drop records that are not sent yet."""
        # of a broken one, `close` would block on an abort that cannot succeed
        if not self._broken:
            self._broken = True
            # first: `close` alone would send the remaining records, and wait for the answers
            self._producer.purge()
            self._producer.close()
        self._drop_producer()

    def _drop_producer(self) -> None:
        """End the producer, whoever still has this writer: the traceback of a noted error leads to it.

        Else its thread would go on to initialize the id, when the broker answers again, and fence the next writer.
        """
        self.__dict__.pop("_producer", None)
        self._connection.attach(None)

    @contextmanager
    def transaction(self) -> Iterator["TransactionalWriter"]:
        """Open a transaction: all records written inside become visible together, or none.

        Raises WriterFencedError when a later writer has come, RecordRefusedError when a record is refused,
        PreconditionError when the broker has aborted the transaction, UnreachableError when it does not answer.
        """
        began = time.monotonic()
        try:
            self._producer.begin_transaction()
            yield self
            self._commit()
        except (KafkaException, SystemError) as raised:
            error = _kafka_error(raised)
            self._abort()
            raise self._to_cdc_error(error, time.monotonic() - began) from raised
        except BaseException:
            # also after Ctrl-C: an open transaction blocks readers of committed records until it times out
            self._abort()
            raise

    def write(self, topic: str, key: bytes, value: bytes | None) -> None:
        """Add a record to the transaction; waits while the buffer is full.

        If a broker refuses the record, the transaction fails, not this call.
        """
        deadline: Deadline | None = None
        while True:
            try:
                self._producer.produce(topic, value, key)
                return
            except KafkaException as error:
                if error.args[0].code() in TOO_LARGE:
                    # the client's own limit: no broker was asked
                    self._refused = self._refused or _RefusedRecord(error.args[0], topic, key)
                raise
            except BufferError:
                deadline = deadline or Deadline(FLUSH_SECONDS)
                if deadline.is_past:
                    raise UnreachableError(
                        f"Kafka {self._log.bootstrap} takes no records of {self._id}", "is every broker running?"
                    ) from None
                self._producer.poll(0.1)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error and error.code() in NO_TOPIC:
            self._missing = self._missing or message.topic()
        # librdkafka's own codes are negative: a record that was never sent was not refused
        elif error and error.code() > 0 and not self._refused:
            self._refused = _RefusedRecord(error, message.topic() or "", message.key())

    def _commit(self) -> None:
        self._producer.commit_transaction(COMMIT_SECONDS)

    def _abort(self) -> None:
        self._broken = True
        try:
            self._producer.abort_transaction(CLOSE_SECONDS)
        except KafkaException as error:
            # the first failing call may have no reason; the abort's error has it
            self._fenced = self._fenced or error.args[0].code() in FENCED

    def _to_cdc_error(self, error: KafkaError, seconds: float) -> CdcError:
        # once fenced, always fenced, even if later calls report something else
        self._fenced = self._fenced or error.code() in FENCED
        if not self._fenced:
            # the transaction's error names the partitions that were not added because of this one
            if self._missing:
                return no_such_topic(self._log, self._missing)
            refused = self._refused
            # the error of an aborted transaction has no reason: the refusal of one of its records has
            found = self._connection.to_cdc_error(refused.error if refused else error)
            # only if the broker refused it for good: being busy has nothing to do with the record
            is_refusal = refused is not None and isinstance(found, PreconditionError)
            return RecordRefusedError(found, refused.topic, refused.key) if refused and is_refusal else found
        # a broker that times a transaction out also raises the epoch, though nobody has taken over (KIP-588)
        if seconds * 1000 > TRANSACTION_MS:
            return PreconditionError(
                f"Kafka gave up a transaction of {self._id} after {seconds:.0f} s",
                "follow more often: batches get smaller",
            )
        return WriterFencedError(f"Kafka {self._log.bootstrap} has fenced the writer {self._id}", "let only one write")


def _kafka_error(raised: KafkaException | SystemError) -> KafkaError:
    """Unwrap librdkafka's error: one raised in a callback is the cause of a SystemError."""
    cause = raised.__cause__ if isinstance(raised, SystemError) else raised
    if not isinstance(cause, KafkaException):
        raise raised
    found: KafkaError = cause.args[0]
    return found
