"""Records written in transactions, one writer at a time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cdc.core.errors import CdcError, PreconditionError, RefusedError, UnreachableError
from cdc.log.clients.connection import TOO_LARGE, Connection
from cdc.log.settings import LogSettings

FLUSH_SECONDS, COMMIT_SECONDS, CLOSE_SECONDS = 60.0, 90.0, 5.0
INIT_SECONDS = 30.0
TRANSACTION_MS = 15 * 60_000
"""The longest that a broker lets a transaction be, unless its `transaction.max.timeout.ms` says otherwise."""
BUFFER_BYTES = 16 * 1024 * 1024
FENCED: Final = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


class RecordRefusedError(PreconditionError):
    """A record that no broker takes, or the client itself: other records of its transaction may be taken without it."""

    def __init__(self, refusal: CdcError, topic: str, key: bytes | None) -> None:
        super().__init__(refusal.what, refusal.remedy)
        self.topic = topic
        self.key = key


@dataclass(frozen=True, slots=True)
class _RefusedRecord:
    """What was said to one record."""

    error: KafkaError
    topic: str
    key: bytes | None


class TransactionalWriter:
    """Writes records in transactions; a later writer with the same id fences this one off (KIP-98).

    Records are buffered up to BUFFER_BYTES, or two of the largest, whatever a transaction's size. After an error the
    writer is of no further use: close it; making the next one aborts what this one left open.
    """

    def __init__(self, log: LogSettings, transactional_id: str) -> None:
        self._log = log
        self._id = transactional_id
        self._connection = Connection(log)
        self._refused: _RefusedRecord | None = None
        self._broken = self._fenced = False
        with self._connection.translate_errors():
            self._producer = Producer(self._options())
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
            # librdkafka takes no record larger than its buffer, empty as it may be
            "queue.buffering.max.kbytes": max(BUFFER_BYTES, 2 * self._log.latest.max_record_bytes) // 1024,
            # where a key goes is decided as Kafka's own client does, which wrote the copy
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
        """Let go of the connections and of what is not sent yet."""
        if self._broken:
            # `close` would try to abort what cannot be: it ends with whoever holds it
            return
        # first: by itself, `close` sends what is left, and waits for the answers
        self._producer.purge()
        self._producer.close()

    @contextmanager
    def transaction(self) -> Iterator["TransactionalWriter"]:
        """All records written inside become visible together, or none of them.

        Raises RefusedError when a later writer has taken over, RecordRefusedError when a record is refused,
        PreconditionError when the broker has given the transaction up, UnreachableError when it does not answer.
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
            # Ctrl-C as well: readers of committed records stand before an open transaction until it times out
            self._abort()
            raise

    def write(self, topic: str, key: bytes, value: bytes | None) -> None:
        """Add a record to the transaction; waits while the buffer is full.

        A record that the broker refuses fails the transaction, not this call.
        """
        deadline = 0.0
        while True:
            try:
                self._producer.produce(topic, value, key)
                return
            except KafkaException as error:
                if error.args[0].code() in TOO_LARGE:
                    # by the client's own bound: no broker is asked
                    self._refused = self._refused or _RefusedRecord(error.args[0], topic, key)
                raise
            except BufferError:
                deadline = deadline or time.monotonic() + FLUSH_SECONDS
                if time.monotonic() > deadline:
                    raise self._silent() from None
                self._producer.poll(0.1)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        # its own codes are negative: a record that was never sent was refused by nobody
        if error and error.code() > 0 and not self._refused:
            self._refused = _RefusedRecord(error, message.topic() or "", message.key())

    def _commit(self) -> None:
        self._producer.commit_transaction(COMMIT_SECONDS)

    def _abort(self) -> None:
        self._broken = True
        try:
            self._producer.abort_transaction(CLOSE_SECONDS)
        except KafkaException as error:
            # the first call that fails may say no more than that all is over; this one says why
            self._fenced = self._fenced or error.args[0].code() in FENCED

    def _silent(self) -> UnreachableError:
        return UnreachableError(
            f"Kafka {self._log.bootstrap} takes no records of {self._id}", "is every broker running?"
        )

    def _to_cdc_error(self, error: KafkaError, seconds: float) -> CdcError:
        # fenced once is fenced for good, though later calls complain of something else
        self._fenced = self._fenced or error.code() in FENCED
        if not self._fenced:
            refused = self._refused
            found = self._connection.to_cdc_error(refused.error if refused else error)
            # what a broker is too busy for is no matter of the record
            is_refusal = refused is not None and isinstance(found, PreconditionError)
            return RecordRefusedError(found, refused.topic, refused.key) if refused and is_refusal else found
        # a broker that ends a transaction raises the epoch, too, though nobody has taken over (KIP-588)
        if seconds * 1000 > TRANSACTION_MS:
            return PreconditionError(
                f"Kafka gave up a transaction of {self._id} after {seconds:.0f} s",
                "follow more often: batches get smaller",
            )
        return RefusedError(
            f"another `cdc follow` has taken over: it writes as {self._id}", "let only one run, on one machine"
        )


def _kafka_error(raised: KafkaException | SystemError) -> KafkaError:
    """What librdkafka says; one that is raised while it calls us back comes as the cause of a SystemError."""
    cause = raised.__cause__ if isinstance(raised, SystemError) else raised
    if not isinstance(cause, KafkaException):
        raise raised
    found: KafkaError = cause.args[0]
    return found
