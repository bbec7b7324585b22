"""What only another client than librdkafka asks of a cluster: the bytes of topics, a version."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from cdc.core.errors import PreconditionError, UnreachableError
from cdc.core.text.error_text import pick_first_line
from cdc.log.clients.connection import REQUEST_SECONDS
from cdc.log.logins import librdkafka_options
from cdc.log.settings import LogSettings

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

_NAMES: Final = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
"""Options of librdkafka → those of kafka-python."""


def can_ask(log: LogSettings) -> bool:
    """Whether kafka-python can log in: it asks no server for tokens."""
    return log.sasl_mechanism != "OAUTHBEARER"


@contextmanager
def open_administration(log: LogSettings, seconds: float = REQUEST_SECONDS) -> Iterator["KafkaAdminClient"]:
    """Open kafka-python's administration client. Raises UnreachableError, or PreconditionError where it is refused."""
    from kafka import KafkaAdminClient
    from kafka import errors as kafka_errors

    where = f"Kafka {log.bootstrap}"
    try:
        client = KafkaAdminClient(**_options(log, seconds))
        try:
            yield client
        finally:
            client.close()
    except (kafka_errors.KafkaConnectionError, kafka_errors.KafkaTimeoutError) as error:
        told = f"{where} does not answer: {pick_first_line(error)}"
        raise UnreachableError(told, "check log.bootstrap; is it running?") from error
    except kafka_errors.KafkaError as error:
        told = f"{where} refused a request: {pick_first_line(error)}"
        raise PreconditionError(told, "see the broker's log") from error


def _options(log: LogSettings, seconds: float) -> Mapping[str, Any]:
    milliseconds = round(1000 * seconds)
    given = librdkafka_options(log)
    return {
        "bootstrap_servers": [server.rpartition("://")[2].strip() for server in log.bootstrap.split(",")],
        "client_id": "cdc",
        "request_timeout_ms": milliseconds,
        "bootstrap_timeout_ms": milliseconds,
        **{own: given[name] for name, own in _NAMES.items() if name in given},
        "ssl_check_hostname": given.get("ssl.endpoint.identification.algorithm") != "none",
    }


def sum_bytes(client: "KafkaAdminClient", kind_of: Callable[[str], str | None]) -> Mapping[str, int]:
    """The bytes of topics on the brokers' disks, all replicas, by the kind that `kind_of` gives to a topic's name."""
    sizes = dict[str, int]()
    for broker in client.describe_log_dirs():
        for topic in (topic for folder in broker["log_dirs"] for topic in folder["topics"]):
            if (kind := kind_of(topic["name"])) is not None:
                size = sum(part["partition_size"] for part in topic["partitions"])
                sizes[kind] = sizes.get(kind, 0) + size
    return sizes


def read_version(client: "KafkaAdminClient") -> tuple[int, ...]:
    """The version of a broker, as far as the requests that it takes tell."""
    broker = client.describe_cluster()["brokers"][0]["broker_id"]
    found: tuple[int, ...] = client.get_broker_version_data(broker).broker_version
    return found
