"""A server that lets nobody in is understood in whatever language it answers."""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest
from psycopg import Connection
from pydantic import SecretStr

from cdc.connect.settings import SourceSettings
from cdc.connect.source.access.connection import RefusedLoginError, connect, explain
from cdc.core.errors import CdcError, PreconditionError, UnreachableError

SAID = "Anmeldung fehlgeschlagen für Benutzer »x«"
ASKS_FOR_PASSWORD = b"R" + (8).to_bytes(4, "big") + (3).to_bytes(4, "big")
ENCRYPTION = (80877103, 80877104)
"""Requests that come before a session's own: for TLS and for GSSAPI."""
sessions_of = Counter[int]()
"""By port, the sessions that were asked for."""


@contextmanager
def server(answer: bytes) -> Iterator[int]:
    """The port of a server that answers so to every session, and ends it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_refuse_all, args=(listening, answer))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            # `accept` does not return when the socket is closed
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _refuse_all(listening: socket.socket, answer: bytes) -> None:
    while True:
        try:
            session, _ = listening.accept()
        except OSError:
            return
        with session:
            sessions_of[listening.getsockname()[1]] += 1
            while _read_request(session) in ENCRYPTION:
                session.sendall(b"N")
            session.sendall(answer)


def _read_request(session: socket.socket) -> int:
    """Its code; that of a session is the protocol's version."""
    length = int.from_bytes(session.recv(4, socket.MSG_WAITALL), "big")
    return int.from_bytes(session.recv(length - 4, socket.MSG_WAITALL)[:4], "big")


def refusal(state: str) -> bytes:
    """An error of this SQLSTATE, in German."""
    fields = {"S": "FATAL", "V": "FATAL", "C": state, "M": SAID}
    body = b"".join(f"{name}{text}\0".encode() for name, text in fields.items()) + b"\0"
    return b"E" + (len(body) + 4).to_bytes(4, "big") + body


def error_of(port: int, given: str = "p") -> CdcError:
    secret = SecretStr(given)
    some = SourceSettings(host="127.0.0.1", port=port, dbname="d", user="x", password=SecretStr("p"), tables=["t"])
    source = some.model_copy(update={"password": secret})
    with pytest.raises(CdcError) as raised:
        connect(source)
    return raised.value


@pytest.mark.parametrize(
    ("state", "kind", "what", "remedy"),
    [
        ("28P01", RefusedLoginError, "refuses the password of 'x'", "correct source.password"),
        ("28000", PreconditionError, SAID, "correct source.user, or let it in (pg_hba.conf)"),
        ("3D000", PreconditionError, SAID, "correct source.dbname, or create the database"),
        ("42501", PreconditionError, SAID, "GRANT the right to the role in source.user, or name another there"),
        ("0A000", PreconditionError, "its encoding has no conversion to UTF8", "use a database with ENCODING 'UTF8'"),
        ("57P03", UnreachableError, SAID, "it is starting or stopping: try again"),
        ("57P01", UnreachableError, SAID, "try again"),
        ("53300", UnreachableError, SAID, "end sessions that nobody needs, or raise max_connections (max_wal_senders)"),
        ("53100", UnreachableError, SAID, "make room on the source's disk"),
        ("58P01", PreconditionError, SAID, "the source has lost or damaged files: see its log"),
        ("P0001", PreconditionError, "(SQLSTATE P0001)", "see the source's log"),
    ],
)
def test_refusal_is_told_by_its_sqlstate(state: str, kind: type[CdcError], what: str, remedy: str) -> None:
    with server(refusal(state)) as port:
        error = error_of(port)
    assert type(error) is kind
    assert what in error.what
    assert error.remedy == remedy


ENDED = "went away: it ends"
BUSY = "try again when less is to do: somebody cancelled it, or it took too long"


@pytest.mark.parametrize(
    ("error", "is_over", "what", "remedy"),
    [
        (psycopg.OperationalError("it ends"), True, ENDED, "try again"),
        (psycopg.errors.AdminShutdown("it ends"), True, ENDED, "try again"),
        (psycopg.errors.DiskFull("it ends"), True, ENDED, "make room on the source's disk"),
        (psycopg.errors.DiskFull("it ends"), False, ": it ends", "make room on the source's disk"),
        (
            psycopg.errors.LockNotAvailable("it ends"),
            False,
            ": it ends",
            "end the session that locks it, or try again later",
        ),
        (psycopg.errors.QueryCanceled("it ends"), False, ": it ends", BUSY),
    ],
)
def test_an_error_of_an_open_session_has_the_remedy_of_its_sqlstate(
    error: psycopg.Error, is_over: bool, what: str, remedy: str
) -> None:
    source = SourceSettings(host="h", user="x", dbname="d", password=SecretStr("y"), tables=["a.b"])
    session = cast("Connection", SimpleNamespace(closed=is_over, broken=is_over))
    told = explain(source, session, error)
    assert (type(told), told.remedy) == (UnreachableError, remedy)
    assert told.what.endswith(what)
    assert ("went away" in told.what) == is_over


async def open_in_a_loop(port: int) -> CdcError:
    return error_of(port)


def test_refusal_is_told_in_a_notebook_whose_event_loop_runs() -> None:
    with server(refusal("28P01")) as port:
        assert "refuses the password" in asyncio.run(open_in_a_loop(port)).what


def test_refusal_that_repeats_is_asked_about_once() -> None:
    """A role that is locked out after so many failed logins has not twice as many."""
    with server(refusal("28P01")) as port:
        count = partial(count_sessions, port)
        assert (count(), count(), count()) == (2, 1, 1)


def count_sessions(port: int) -> int:
    before = sessions_of[port]
    error_of(port)
    return sessions_of[port] - before


def test_password_that_is_asked_for_and_not_given_is_told() -> None:
    with server(ASKS_FOR_PASSWORD) as port:
        error = error_of(port, given="")
    assert "refuses the password of 'x'" in error.what


def test_port_where_nobody_listens_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert isinstance(error_of(free.getsockname()[1]), UnreachableError)
