"""The connection of librdkafka's clients to the cluster, and the translation of their errors."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import stamina
from confluent_kafka import KafkaError, KafkaException

from cdc.core.errors import RECAPTURE, CdcError, HistoryLostError, PreconditionError, UnreachableError
from cdc.log.settings import LogSettings

Answer = TypeVar("Answer")

REQUEST_SECONDS: Final = 10.0
"""The time limit of one request, including the search for a broker."""
STALL_SECONDS: Final = 60.0
TOO_LARGE_REMEDY: Final = "raise log.latest.max_record_bytes, and max.message.bytes of the topics that are there"

UNKNOWN: Final = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}
TOO_LARGE: Final = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
_TRANSIENT: Final = {
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}
"""Error codes during elections and restarts of brokers (the protocol's error codes, "Retriable")."""
OFFSET_LOST: Final = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
"""Error codes for an offset that a topic no longer has, or does not have yet."""
_OF_ONE_TRY: Final = re.compile(r" \(after \d+ms in state \w+(, \d+ identical error\(s\) suppressed)?\)$")
_SETTINGS: Final = {KafkaError._INVALID_ARG, KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._FS}
"""Error codes that do not pass by waiting: a wrong password, certificate or option."""

_quiet = logging.getLogger("cdc.kafka")
# without a handler librdkafka writes to stderr
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class Connection:
    """One client's connection to a cluster; remembers the last error of its brokers."""

    def __init__(self, log: LogSettings) -> None:
        self._log = log
        self._told: KafkaError | None = None
        self._down = False

    def options(self) -> dict[str, Any]:
        """The options of all librdkafka clients."""
        log = self._log
        options: dict[str, Any] = {
            "bootstrap.servers": log.bootstrap,
            "security.protocol": log.security_protocol,
            "client.id": "cdc",
            # by default a client waits up to 10 s before it tries a restarted broker again
            "reconnect.backoff.max.ms": 2_000,
            # half of it goes by between a new client's first two connections, to a bootstrap server and to a broker
            "reconnect.backoff.ms": 20,
            "error_cb": self._tell,
            "logger": _quiet,
        }
        if log.sasl_mechanism:
            options["sasl.mechanism"] = log.sasl_mechanism
            options["sasl.username"] = log.username or ""
            options["sasl.password"] = log.password.get_secret_value() if log.password else ""
        if "SSL" in log.security_protocol and log.ca_file:
            options["ssl.ca.location"] = log.ca_file
        return options

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate exceptions of librdkafka to CdcError."""
        try:
            yield
        except KafkaException as error:
            raise self.to_cdc_error(error.args[0]) from error

    def mark_answered(self) -> None:
        """Forget earlier errors: a broker has answered."""
        self._told, self._down = None, False

    def check(self) -> None:
        """Raise UnreachableError when all brokers are down, and none has answered since."""
        if self._down and self._told:
            raise self.to_cdc_error(self._told)

    def to_cdc_error(self, error: KafkaError) -> CdcError:
        """Translate an error of librdkafka to one line."""
        where, code = f"Kafka {self._log.bootstrap}", error.code()
        if code in UNKNOWN:
            return PreconditionError(f"{where}: no such topic: {error.str()}", "run `cdc bootstrap`")
        if code in TOO_LARGE:
            return PreconditionError(f"{where}: a record is too large: {error.str()}", TOO_LARGE_REMEDY)
        if code in OFFSET_LOST:
            # retention has deleted it before it was read
            return HistoryLostError(f"{where} no longer has what was to be read next: {error.str()}", RECAPTURE)
        # its own codes are negative; those above zero are a broker's answer
        if code > 0 and code not in _TRANSIENT:
            return PreconditionError(f"{where} refused a request: {error.str()}", "see the broker's log")
        # the error of a request without an answer has no reason; the connection's last error has
        cause = self._told or error
        if {code, cause.code()} & _SETTINGS:
            return PreconditionError(f"{where} cannot be used: {cause.str()}", "correct the log block of cdc.yaml")
        # how long the try took, and how many were alike, differs each time: one trouble is to have one text
        text = _OF_ONE_TRY.sub("", cause.str())
        return UnreachableError(f"{where} does not answer: {text}", "check log.bootstrap; is it running?")

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Send a request; repeat it for up to REQUEST_SECONDS after retriable errors.

        A new topic, for instance, has no leader for a moment.
        """
        with self.translate_errors():
            for attempt in stamina.retry_context(_is_passing, attempts=None, timeout=REQUEST_SECONDS, wait_max=1.0):
                with attempt:
                    found = question()
        self.mark_answered()
        return found

    def _tell(self, error: KafkaError) -> None:
        down = error.code() == KafkaError._ALL_BROKERS_DOWN
        self._down |= down
        # "all brokers are down" follows the reason, and says less
        if not down or self._told is None:
            self._told = error


def _is_passing(error: Exception) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in _TRANSIENT
