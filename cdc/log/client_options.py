"""Options of librdkafka that `log.client_options` may set, and what Kafka's Java clients get in their place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ClientOption:
    """An option. `java`: its name there; None where the Java clients have no such thing, and do what `without` says.

    `values`: what it may be, as librdkafka → Java; anything if there are none.
    """

    java: str | None = None
    without: str = ""
    values: Mapping[str, str] | None = None


_SAME: Final = (
    "client.rack",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "socket.connection.setup.timeout.ms",
)
_LOOKUPS: Final = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")

OPTIONS: Final[Mapping[str, ClientOption]] = {
    **{name: ClientOption(name) for name in _SAME},
    "client.dns.lookup": ClientOption("client.dns.lookup", values={name: name for name in _LOOKUPS}),
    "socket.receive.buffer.bytes": ClientOption("receive.buffer.bytes"),
    "socket.send.buffer.bytes": ClientOption("send.buffer.bytes"),
    "socket.timeout.ms": ClientOption("request.timeout.ms"),
    "ssl.endpoint.identification.algorithm": ClientOption(
        "ssl.endpoint.identification.algorithm", values={"https": "https", "none": ""}
    ),
    "broker.address.family": ClientOption(
        without="take the first address of a name", values={name: name for name in ("any", "v4", "v6")}
    ),
    "broker.address.ttl": ClientOption(without="have a cache of names in Java"),
    "socket.keepalive.enable": ClientOption(without="always keep connections alive"),
    "socket.nagle.disable": ClientOption(without="never wait for more to send"),
    "statistics.interval.ms": ClientOption(without="count by JMX"),
}
"""None of them decides what is read or written, or in which order."""

_INSTEAD: Final[Mapping[str, str]] = {
    "bootstrap.servers": "log.bootstrap",
    "metadata.broker.list": "log.bootstrap",
    "security.protocol": "log.security_protocol",
    "sasl.mechanism": "log.sasl_mechanism",
    "sasl.mechanisms": "log.sasl_mechanism",
    "sasl.username": "log.username",
    "sasl.password": "log.password",
    "ssl.ca.location": "log.ca_file",
    "ssl.certificate.location": "log.certificate_file",
    "ssl.key.location": "log.key_file",
    "ssl.key.password": "log.key_password",
}


def find_refusal(name: str, value: str) -> str | None:
    """Why this option may not be set to this; None if it may."""
    if name in _INSTEAD or name.startswith("sasl.oauthbearer."):
        return f"has a setting of its own: {_INSTEAD.get(name, 'log.oauth')}"
    option = OPTIONS.get(name)
    if option is None:
        return "cannot be set: Kafka's Java clients have no such thing, or the order depends on it; see docs/LOGINS.md"
    if option.values is not None and value not in option.values:
        return f"is none of {', '.join(option.values)}, which librdkafka and Java both know"
    return None


def to_java(options: Mapping[str, str]) -> dict[str, str]:
    """What Kafka's Java clients get for these options."""
    known = ((OPTIONS[name], value) for name, value in options.items())
    return {option.java: (option.values or {}).get(value, value) for option, value in known if option.java}
