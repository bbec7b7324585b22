"""The way to the source, and who answers there."""

import ipaddress
import socket
from collections.abc import Iterator
from typing import Final

from cdc.connect.source.access.connection import address
from cdc.core.errors import RECAPTURE, HistoryLostError, UnreachableError
from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.facts.source import OLDEST_VERSION, describe_old
from cdc.run.doctor.parts import AskedParts

_SLOW_SECONDS: Final = 0.1
_SKEWED_SECONDS: Final = 5.0


def is_local(host: str) -> bool:
    """Is it a socket, or an address of this machine?"""
    if host.startswith("/") or host in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _reach(parts: AskedParts) -> Iterator[Fault]:
    _ = parts.access
    yield from ()


@check("source.dns", Severity.ERROR, "without an address there is nothing to ask")
def find_address(parts: AskedParts) -> Iterator[Fault]:
    """The name of the host has an address."""
    return _reach(parts)


@check("source.tcp", Severity.ERROR, "nothing can be read from a server that does not answer")
def find_server(parts: AskedParts) -> Iterator[Fault]:
    """A Postgres answers at host and port."""
    return _reach(parts)


@check("source.tls", Severity.ERROR, "a session that the settings want encrypted and verified is not opened otherwise")
def find_trust(parts: AskedParts) -> Iterator[Fault]:
    """The server has the TLS that `source.sslmode` asks for: the chain of its certificate, and the name in it."""
    return _reach(parts)


@check("source.login", Severity.ERROR, "every verb, and the connector, log in as this role")
def find_login(parts: AskedParts) -> Iterator[Fault]:
    """The server lets the role in, with this password and from this machine."""
    return _reach(parts)


@check("source.database", Severity.ERROR, "a slot belongs to one database")
def find_database(parts: AskedParts) -> Iterator[Fault]:
    """The database is there."""
    return _reach(parts)


@check("source.encoding", Severity.ERROR, "every value is one text in UTF-8")
def find_conversion(parts: AskedParts) -> Iterator[Fault]:
    """The database's encoding has a conversion to UTF-8."""
    return _reach(parts)


@check(
    "source.primary", Severity.ERROR, "publication, heartbeats and the toolkit's tables are written on the primary only"
)
def find_primary(parts: AskedParts) -> Iterator[Fault]:
    """The server is the primary."""
    return _reach(parts)


@check(
    "source.pooler",
    Severity.ERROR,
    "a slot is made and read by the replication protocol, which a pooler does not pass on",
)
def find_pooler(parts: AskedParts) -> Iterator[Fault]:
    """A session of the replication protocol is answered."""
    error = parts.source.replication_error
    if error is not None:
        remedy = (
            "name the server itself in source.host and source.port, not a pooler such as PgBouncer; else see the cause"
        )
        yield Fault(
            address(parts.settings.source), f"a replication command fails: {error.what}", remedy, kind=type(error)
        )


@check("source.balancer", Severity.WARNING, "a snapshot that one server has exported is not there on another")
def find_balancer(parts: AskedParts) -> Iterator[Fault]:
    """Two sessions reach the same server."""
    server = parts.source.server
    if server.other_started != server.started:
        what = "two sessions have reached two servers: the host is a balancing endpoint"
        yield Fault(parts.settings.source.host, what, "name the primary's own address in source.host")


@check("source.version", Severity.ERROR, "older versions lack what the checks of a publication ask for")
def find_version(parts: AskedParts) -> Iterator[Fault]:
    """The server is Postgres 15 or newer."""
    if (version := parts.source.server.version) < OLDEST_VERSION:
        yield Fault.of("server", describe_old(version))


@check("source.answers", Severity.ERROR, "what the source does not tell, no verb knows either")
def find_silence(parts: AskedParts) -> Iterator[Fault]:
    """The source answers what is asked of its settings, role, slots and publication."""
    _ = parts.source
    yield from ()


@check(
    "source.registered",
    Severity.ERROR,
    "without its registration nothing says which slot, publication and topics are this pipeline's",
    at_bootstrap=False,
)
def find_forgotten(parts: AskedParts) -> Iterator[Fault]:
    """The source knows the pipeline that the lake has a copy of."""
    source, name = parts.source, parts.settings.pipeline.name
    if source.registered is None and source.schema_error is None and parts.has_copy:
        schema = parts.settings.source.heartbeat_schema
        what = f"the source does not know pipeline {name} any more: schema {schema}, or its row, is gone"
        yield Fault(name, what, RECAPTURE, kind=HistoryLostError)


@check("source.ipv6", Severity.WARNING, "where Kafka Connect has IPv4 only, the connector does not reach the source")
def find_only_ipv6(parts: AskedParts) -> Iterator[Fault]:
    """The host has an IPv4 address, too."""
    route = parts.source.route
    if route.families and socket.AF_INET not in route.families and not is_local(parts.settings.source.host):
        remedy = "see that Connect's workers have IPv6, or name an address with IPv4 in connect.source_host"
        yield Fault(parts.settings.source.host, "the host has IPv6 addresses only", remedy)


@check(
    "source.plaintext", Severity.WARNING, "the password's proof and every row can be read, and changed, on their way"
)
def find_plaintext(parts: AskedParts) -> Iterator[Fault]:
    """A session with another machine is encrypted."""
    source = parts.settings.source
    if not parts.source.server.has_tls and not any(map(is_local, source.host.split(","))):
        remedy = "set source.sslmode to verify-full, with source.sslrootcert"
        yield Fault(address(source), "the session with the source is not encrypted", remedy)


@check("source.round_trip", Severity.NOTE, "each step of a copy and of the schema history waits for answers")
def find_slow_trip(parts: AskedParts) -> Iterator[Fault]:
    """An answer takes less than 100 ms."""
    if (seconds := parts.source.server.round_trip) > _SLOW_SECONDS:
        what = f"an answer of the source takes {seconds * 1000:.0f} ms"
        yield Fault(address(parts.settings.source), what, "run the toolkit nearer to the source", kind=UnreachableError)


@check("source.clock", Severity.WARNING, "lags and ages compare the source's clock with this machine's")
def find_skew(parts: AskedParts) -> Iterator[Fault]:
    """The clocks of source and this machine differ by less than 5 s."""
    if abs(skew := parts.source.server.clock_skew) > _SKEWED_SECONDS:
        ahead = "ahead of" if skew > 0 else "behind"
        what = f"the source's clock is {abs(skew):.0f} s {ahead} that of this machine"
        yield Fault("clocks", what, "let both follow NTP")
