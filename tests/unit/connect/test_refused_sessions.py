"""A server that lets nobody in is understood in whatever language it answers."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pydantic import SecretStr

from cdc.connect.settings import SourceSettings
from cdc.connect.source.connection import connect
from cdc.core.errors import CdcError, PreconditionError, UnreachableError

SAID = "Anmeldung fehlgeschlagen für Benutzer »x«"
ASKS_FOR_PASSWORD = b"R" + (8).to_bytes(4, "big") + (3).to_bytes(4, "big")
ENCRYPTION = (80877103, 80877104)
"""Requests that come before a session's own: for TLS and for GSSAPI."""


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
    source = SourceSettings(host="127.0.0.1", port=port, dbname="d", user="x", password=secret, tables=["t"])
    with pytest.raises(CdcError) as raised:
        connect(source)
    return raised.value


@pytest.mark.parametrize(
    ("state", "kind", "what", "remedy"),
    [
        ("28P01", PreconditionError, "refuses the password of 'x'", "correct source.password"),
        ("28000", PreconditionError, SAID, "correct the source block, or create what is missing"),
        ("3D000", PreconditionError, SAID, "correct the source block, or create what is missing"),
        ("42501", PreconditionError, SAID, "correct the source block, or create what is missing"),
        ("0A000", PreconditionError, "its encoding has no conversion to UTF8", "use a database with ENCODING 'UTF8'"),
        ("57P03", UnreachableError, SAID, "check source.host and source.port; is it running?"),
        ("53300", UnreachableError, SAID, "check source.host and source.port; is it running?"),
    ],
)
def test_refusal_is_told_by_its_sqlstate(state: str, kind: type[CdcError], what: str, remedy: str) -> None:
    with server(refusal(state)) as port:
        error = error_of(port)
    assert type(error) is kind
    assert what in error.what
    assert error.remedy == remedy


def test_password_that_is_asked_for_and_not_given_is_told() -> None:
    with server(ASKS_FOR_PASSWORD) as port:
        error = error_of(port, given="")
    assert "refuses the password of 'x'" in error.what


def test_port_where_nobody_listens_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert isinstance(error_of(free.getsockname()[1]), UnreachableError)
