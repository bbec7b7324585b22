"""The way to the source, step by step, so that the step that fails is named: name, port, TLS, login, database."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil

from psycopg import Connection

from cdc.connect.settings import SourceSettings
from cdc.connect.source.access.connection import address, connect, open_connection
from cdc.connect.source.access.tls_refusal import TLS_REQUEST
from cdc.connect.source_login import ENCRYPTING
from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.run.doctor.asking import SilentPartError


@dataclass(frozen=True, slots=True)
class SourceRoute:
    """What is known before a session: the families of addresses of the host's name, and whether TLS is offered."""

    families: frozenset[socket.AddressFamily]
    offers_tls: bool


@dataclass(frozen=True, slots=True)
class Access:
    """The settings with the doctor's patience, and the route to a server that lets the role in.

    `seconds`: for a session to open, and for a statement.
    """

    source: SourceSettings
    route: SourceRoute
    seconds: float

    @contextmanager
    def open(self) -> Iterator[Connection]:
        """A session that changes nothing, waits for no lock, and asks no question for long."""
        with open_connection(self.source) as connection:
            patience = f"statement_timeout = {self.seconds * 1000:.0f}"
            for setting in ("default_transaction_read_only = on", "lock_timeout = '1s'", patience):
                connection.execute(f"SET {setting}".encode())
            yield connection


def find_access(source: SourceSettings, seconds: float) -> Access:
    """Find how the source is reached, with so many seconds for each step.

    Raises SilentPartError, named after the step that fails.
    """
    # of several hosts one answers for all, so the whole list is tried; a socket's folder has no name to look up
    route = SourceRoute(frozenset(), offers_tls=False)
    if "," not in source.host and not source.host.startswith("/"):
        route = _find_route(source, seconds)
    patient = source.model_copy(update={"connect_timeout_seconds": min(ceil(seconds), source.connect_timeout_seconds)})
    _try_session(patient)
    return Access(patient, route, seconds)


def _find_route(source: SourceSettings, seconds: float) -> SourceRoute:
    where = address(source)
    try:
        found = socket.getaddrinfo(source.host, source.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _silent(
            "dns", source, UnreachableError(f"{source.host} has no address: {error.strerror}", "correct source.host")
        ) from None
    try:
        with socket.create_connection((source.host, source.port), timeout=seconds) as channel:
            channel.sendall(TLS_REQUEST)
            offers = channel.recv(1) == b"S"
    except OSError as error:
        what = f"{where} does not answer: {error.strerror or error}"
        raise _silent(
            "tcp", source, UnreachableError(what, "check source.host and source.port; is it running?")
        ) from None
    if not offers and source.sslmode in ENCRYPTING:
        what = f"{where} has no TLS, and source.sslmode is {source.sslmode}"
        raise _silent(
            "tls", source, PreconditionError(what, "switch ssl on in the server, or set source.sslmode to prefer")
        )
    return SourceRoute(frozenset(family for family, *_ in found), offers)


def _try_session(source: SourceSettings) -> None:
    try:
        connect(source).close()
    except CdcError as error:
        raise _silent(_name_step(error), source, error) from None


def _name_step(error: CdcError) -> str:
    """The step that a session ended at, by what the error says helps: texts of servers are in their language."""
    remedies: dict[str, Callable[[str], bool]] = {
        "tls": lambda text: "source.sslrootcert" in text,
        "login": lambda text: "source.password" in text or "source.user" in text,
        "database": lambda text: "source.dbname" in text,
        "primary": lambda text: "name the primary" in text,
        "encoding": lambda text: "ENCODING 'UTF8'" in text,
    }
    if step := next((step for step, is_meant in remedies.items() if is_meant(error.remedy)), None):
        return step
    return "tcp"


def _silent(step: str, source: SourceSettings, error: CdcError) -> SilentPartError:
    return SilentPartError(f"source.{step}", address(source), error)
