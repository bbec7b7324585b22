"""Why a server lets nobody in, by its SQLSTATE: its texts are in the language that it is set to (`lc_messages`)."""

import asyncio
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Final

import asyncpg
import psycopg
from psycopg.pq import PGconn, PollingStatus
from psycopg.pq import abc as pq

from cdc.core.text.error_text import pick_first_line
from cdc.core.waiting import Deadline
from cdc.postgres.errors import UNAUTHENTICATED
from cdc.postgres.session import is_bound, open_session

_known = dict[tuple[str, str], str]()
"""Connection string and text of a refusal → its SQLSTATE."""
_TRACED: Final = re.compile(rb'ErrorResponse\t.*? C "([0-9A-Z]{5})"')
"""The line of libpq's trace (`PQtrace`) for a server's refusal."""
_TRACE_SECONDS: Final = 10.0
_SENT = ("application_name", "options", "replication")


def find_sqlstate(conninfo: str, error: psycopg.OperationalError) -> str | None:
    """Find the SQLSTATE of the refusal that `error` reports; None when no server has answered.

    libpq keeps the SQLSTATE of a session that does not open to itself, so its trace tells it, or another client.
    """
    if error.sqlstate:
        return error.sqlstate
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return None
    if error.pgconn is not None and error.pgconn.needs_password:
        # libpq gives up by itself
        return UNAUTHENTICATED
    # once for each refusal: where failed logins are counted, a program that tries again must not fail twice as often
    refusal = conninfo, pick_first_line(error)
    if refusal not in _known:
        # in a thread of its own: in a notebook the caller's has a running event loop already
        with ThreadPoolExecutor(1) as thread:
            state = thread.submit(_ask_again, conninfo).result()
        if state is None:
            return None
        _known[refusal] = state
    return _known[refusal]


def _ask_again(conninfo: str) -> str | None:
    # psycopg traces there only; a login that is bound to its channel must not be tried without
    if sys.platform == "linux":
        return _trace(conninfo)
    return None if is_bound(conninfo) else _try_to_connect(conninfo)


def _trace(conninfo: str) -> str | None:
    """Have libpq itself try again, and write down what the server says."""
    # in memory: a trace has what is sent, too
    with os.fdopen(os.memfd_create("trace"), "r+b") as trace:
        connection = PGconn.connect_start(conninfo.encode())
        connection.trace(trace.fileno())
        with suppress(psycopg.Error, OSError):
            _poll(connection)
        connection.untrace()
        connection.finish()
        trace.seek(0)
        found = _TRACED.search(trace.read())
    return found[1].decode() if found else None


def _poll(connection: pq.PGconn) -> None:
    # of all together: libpq's own time-out is of calls that block
    deadline = Deadline(_TRACE_SECONDS)
    while (state := connection.connect_poll()) not in (PollingStatus.OK, PollingStatus.FAILED):
        if deadline.is_past:
            return
        event = EVENT_READ if state == PollingStatus.READING else EVENT_WRITE
        # not select(): a process with many open files has descriptors above its limit; made anew, since the socket of a
        # further address is another one
        with DefaultSelector() as waiting:
            waiting.register(connection.socket, event)
            waiting.select(deadline.seconds_left)


def _try_to_connect(conninfo: str) -> str | None:
    try:
        asyncio.run(_connect(conninfo))
    except asyncpg.PostgresError as refusal:
        return str(refusal.sqlstate)
    except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        return None
    return None


async def _connect(conninfo: str) -> None:
    # with all that the first client has sent: the server may refuse one of these
    connection = await open_session(conninfo, _SENT)
    connection.terminate()
