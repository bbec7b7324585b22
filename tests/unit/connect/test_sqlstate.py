"""The SQLSTATE of a refusal, where the server does not go on to answer."""

import os
import resource
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import psycopg
import pytest

from cdc.connect.source.access import sqlstate

BEYOND_SELECT = 1100
"""More descriptors than select() takes."""


@pytest.fixture
def mute_server() -> Iterator[int]:
    """A server that takes connections and says nothing, and a process with many open files; its port."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        with suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * BEYOND_SELECT), hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(BEYOND_SELECT):
            held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        server = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        yield int(server.getsockname()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no trace of libpq is read")
@pytest.mark.timeout(60)
def test_a_server_that_falls_silent_is_not_waited_for_any_longer(
    mute_server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlstate, "_TRACE_SECONDS", 0.3)
    conninfo = f"host=127.0.0.1 port={mute_server} dbname=d user=u sslmode=disable"
    assert sqlstate.find_sqlstate(conninfo, psycopg.OperationalError("refused a moment ago")) is None
