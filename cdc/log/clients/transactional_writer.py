"""Records written in transactions, one writer at a time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kafka import KafkaProducer
from kafka.errors import (
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
)

from cdc.core.errors import CdcError, PreconditionError, RefusedError
from cdc.log.clients.connection import REQUEST_MS, as_ours, client_options, reported
from cdc.log.settings import LogSettings

FLUSH_SECONDS, CLOSE_SECONDS = 60.0, 5.0
TRANSACTION_MS = 15 * 60_000
"""The longest that a broker lets a transaction be, unless its `transaction.max.timeout.ms` says otherwise."""
BUFFER_BYTES = 16 * 1024 * 1024
FENCED = (ProducerFencedError, InvalidProducerEpochError)


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
            return as_ours(self._log, error)
        if seconds * 1000 > TRANSACTION_MS:
            return PreconditionError(
                f"Kafka gave up a transaction of {self._id} after {seconds:.0f} s",
                "follow more often: batches get smaller",
            )
        return RefusedError(
            f"another writer has taken over as {self._id}", "stop the other `cdc follow`, then start again"
        )
