"""The connection of librdkafka's clients to the cluster, and the translation of their errors."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

import stamina
from confluent_kafka import Consumer, KafkaError, KafkaException
from pydantic import SecretStr

from cdc.core.errors import RECAPTURE, CdcError, HistoryLostError, PreconditionError, UnreachableError
from cdc.log.logins import librdkafka_options
from cdc.log.settings import LogSettings
from cdc.secrets import SecretUnavailableError, renew, reveal

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
_ALERT: Final = re.compile(r"tls alert.*(certificate|ca)", re.IGNORECASE)
"""The other end's word on our certificate (RFC 8446, "Error Alerts"), as OpenSSL writes it."""
_SETTINGS: Final = {KafkaError._INVALID_ARG, KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._FS}
"""Error codes that do not pass by waiting: a wrong password, certificate or option."""

_quiet = logging.getLogger("cdc.kafka")
# without a handler librdkafka writes to stderr
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class _Client(Protocol):
    def poll(self, timeout: float, /) -> object: ...
    def set_sasl_credentials(self, username: str, password: str, /) -> None: ...


class Connection:
    """One client's connection to a cluster; remembers the last error of its brokers.

    A password that a broker refuses is asked for again where its place is known, and given to the client.
    """

    def __init__(self, log: LogSettings) -> None:
        self._log = log
        self._told: KafkaError | None = None
        self._down = False
        self._password = ""
        self._client: _Client | None = None
        self._has_outlived = self._is_refused = False

    def options(self) -> dict[str, Any]:
        """The options of all librdkafka clients."""
        log = self._log
        options: dict[str, Any] = {
            "bootstrap.servers": log.bootstrap,
            "client.id": "cdc",
            # by default a client waits up to 10 s before it tries a restarted broker again
            "reconnect.backoff.max.ms": 2_000,
            # half of it goes by between a new client's first two connections, to a bootstrap server and to a broker
            "reconnect.backoff.ms": 20,
            "error_cb": self._tell,
            "logger": _quiet,
            **librdkafka_options(log),
        }
        self._password = reveal(self._secret)
        return options

    def attach(self, client: _Client | None) -> None:
        """Name the client that was made with these options; None when it is given up."""
        self._client = client

    @property
    def _secret(self) -> SecretStr | None:
        return self._log.oauth.client_secret if self._log.oauth else self._log.password

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
        if self._down and self._told and not self.settle_login():
            raise self.to_cdc_error(self._told)

    def to_cdc_error(self, error: KafkaError) -> CdcError:
        """Translate an error of librdkafka to one line."""
        where, code = f"Kafka {self._log.bootstrap}", error.code()
        self.settle_login()
        if code in UNKNOWN:
            return no_such_topic(self._log, error.str())
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
        return self._explain_silence(where, {code, cause.code()}, cause.str())

    def _explain_silence(self, where: str, codes: set[int], said: str) -> CdcError:
        """Explain a request that no broker has answered, by what the connection `said` last."""
        if self._has_outlived:
            # for who makes a client anew: the next one knows another secret
            return UnreachableError(f"{where} has refused a secret that has changed since: {said}", "try again")
        if _ALERT.search(said):
            what = f"{where} refuses our certificate, or that there is none: {said}"
            return PreconditionError(what, "correct log.certificate_file: is it valid, of whom the brokers trust?")
        if codes & _SETTINGS or "certificate" in said:
            return PreconditionError(f"{where} cannot be used: {said}", "correct the log block of cdc.yaml")
        # how long the try took, and how many were alike, differs each time: one trouble is to have one text
        text = _OF_ONE_TRY.sub("", said)
        return UnreachableError(f"{where} does not answer: {text}", "check log.bootstrap; is it running?")

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Send a request; repeat it for up to REQUEST_SECONDS after retriable errors.

        A new topic, for instance, has no leader for a moment. After a login with a new password it is sent once more.
        """
        with self.translate_errors():
            try:
                found = self._repeat(question)
            except KafkaException:
                self._hear()
                if not self.settle_login():
                    raise
                found = self._repeat(question)
        self.mark_answered()
        return found

    def _repeat(self, question: Callable[[], Answer]) -> Answer:
        for attempt in stamina.retry_context(_is_passing, attempts=None, timeout=REQUEST_SECONDS, wait_max=1.0):
            with attempt:
                found = question()
        return found

    def _hear(self) -> None:
        """Let the client tell the errors of its connections: only a poll does, and of a consumer takes a message."""
        if self._client is not None and not isinstance(self._client, Consumer):
            self._client.poll(0)

    def settle_login(self) -> bool:
        """Give the client another secret, if a broker has refused the one that it has; returns whether it goes on.

        Never called by the client's own callbacks, in which librdkafka takes none. Only a new client can be told
        another secret of OAuth.
        """
        was_refused, self._is_refused = self._is_refused, False
        try:
            if not was_refused or not renew(self._secret, self._password):
                return False
        except SecretUnavailableError:
            return False
        if self._client is None or self._log.oauth:
            self._has_outlived = True
            return False
        self._password = reveal(self._secret)
        self._client.set_sasl_credentials(self._log.username or "", self._password)
        self.mark_answered()
        return True

    def _tell(self, error: KafkaError) -> None:
        self._is_refused |= error.code() == KafkaError._AUTHENTICATION
        down = error.code() == KafkaError._ALL_BROKERS_DOWN
        self._down |= down
        # "all brokers are down" follows the reason, and says less
        if not down or self._told is None:
            self._told = error


def no_such_topic(log: LogSettings, said: str) -> PreconditionError:
    """The error of a topic that is not there, by its name or by what a broker `said`."""
    return PreconditionError(f"Kafka {log.bootstrap}: no such topic: {said}", "run `cdc bootstrap`")


def _is_passing(error: Exception) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in _TRANSIENT
