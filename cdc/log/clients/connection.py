"""How kafka-python, which is untyped, reaches the cluster, and what it raises, in words of ours."""

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka.errors import (
    BrokerResponseError,
    KafkaError,
    MessageSizeTooLargeError,
    UnknownTopicOrPartitionError,
)

from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.log.settings import LogSettings

REQUEST_MS, BOOTSTRAP_MS = 30_000, 10_000
STALL_SECONDS = 60.0
TOO_LARGE_REMEDY = "raise log.latest.max_record_bytes, and max.message.bytes of the topics that are there"

logging.getLogger("kafka").addHandler(logging.NullHandler())


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
        raise as_ours(log, error) from error


def as_ours(log: LogSettings, error: KafkaError) -> CdcError:
    """One line for what kafka-python raised."""
    reason = str(error) or type(error).__name__
    if isinstance(error, UnknownTopicOrPartitionError):
        return PreconditionError(f"Kafka {log.bootstrap}: no such topic: {reason}", "run `cdc bootstrap`")
    if isinstance(error, MessageSizeTooLargeError):
        return PreconditionError(f"Kafka {log.bootstrap}: a record is too large: {reason}", TOO_LARGE_REMEDY)
    if isinstance(error, BrokerResponseError) and not error.retriable:
        return PreconditionError(f"Kafka {log.bootstrap} refused a request: {reason}", "see the broker's log")
    return UnreachableError(f"Kafka {log.bootstrap} does not answer: {reason}", "check log.bootstrap; is it running?")
