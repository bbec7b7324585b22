"""Records written in transactions, one writer at a time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cdc.core.errors import CdcError, PreconditionError, RefusedError, UnreachableError
from cdc.log.clients.connection import Connection
from cdc.log.settings import LogSettings

FLUSH_SECONDS, COMMIT_SECONDS, CLOSE_SECONDS = 60.0, 90.0, 5.0
INIT_SECONDS = 30.0
TRANSACTION_MS = 15 * 60_000
"""The longest that a broker lets a transaction be, unless its `transaction.max.timeout.ms` says otherwise."""
BUFFER_BYTES = 16 * 1024 * 1024
FENCED: Final = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


class TransactionalWriter:
    """Writes records in transactions; a later writer with the same id fences this one off (KIP-98).

    Records are buffered up to BUFFER_BYTES, or two of the largest, whatever a transaction's size. After an error the
    writer is of no further use: close it; making the next one aborts what this one left open.
    """

    def __init__(self, log: LogSettings, transactional_id: str) -> None:
        self._log = log
        self._id = transactional_id
        self._connection = Connection(log)
        self._failure: KafkaError | None = None
        self._broken = self._fenced = False
        with self._connection.reported():
            self._producer = Producer(self._options())
            try:
                self._producer.init_transactions(INIT_SECONDS)
            except KafkaException:
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
            "on_delivery": self._delivered,
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

        Raises RefusedError when a later writer has taken over, PreconditionError when the broker has given the
        transaction up or refuses a record, UnreachableError when it does not answer.
        """
        began = time.monotonic()
        try:
            self._producer.begin_transaction()
            yield self
            self._commit()
        except KafkaException as error:
            self._abort()
            raise self._judged(error.args[0], time.monotonic() - began) from error
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
            except BufferError:
                deadline = deadline or time.monotonic() + FLUSH_SECONDS
                if time.monotonic() > deadline:
                    raise self._silent() from None
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._failure = self._failure or error

    def _commit(self) -> None:
        self._producer.commit_transaction(COMMIT_SECONDS)

    def _abort(self) -> None:
        self._broken = True
        with suppress(KafkaException):
            self._producer.abort_transaction(CLOSE_SECONDS)

    def _silent(self) -> UnreachableError:
        return UnreachableError(
            f"Kafka {self._log.bootstrap} takes no records of {self._id}", "is every broker running?"
        )

    def _judged(self, error: KafkaError, seconds: float) -> CdcError:
        # fenced once is fenced for good, though later calls complain of something else
        self._fenced = self._fenced or error.code() in FENCED
        if not self._fenced:
            # of a transaction that has to be aborted, the reason is what a broker said to one of its records
            told = self._failure if self._failure and self._failure.code() > 0 else error
            return self._connection.as_ours(told)
        # a broker that ends a transaction raises the epoch, too, though nobody has taken over (KIP-588)
        if seconds * 1000 > TRANSACTION_MS:
            return PreconditionError(
                f"Kafka gave up a transaction of {self._id} after {seconds:.0f} s",
                "follow more often: batches get smaller",
            )
        return RefusedError(
            f"another writer has taken over as {self._id}", "stop the other `cdc follow`, then start again"
        )
