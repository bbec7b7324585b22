"""Why a server lets nobody in, by its SQLSTATE: its texts are in the language that it is set to (`lc_messages`)."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import psycopg

from cdc.core.error_text import pick_first_line
from cdc.postgres.errors import UNAUTHENTICATED
from cdc.postgres.session import open_session

_known = dict[tuple[str, str], str]()
"""Connection string and text of a refusal → its SQLSTATE."""
_SENT = ("application_name", "options", "replication")


def find_sqlstate(conninfo: str, error: psycopg.OperationalError) -> str | None:
    """Find the SQLSTATE of the refusal that `error` reports; None when no server has answered.

    libpq keeps the SQLSTATE of a session that does not open to itself, so another client tries once more.
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
            state = thread.submit(_try_to_connect, conninfo).result()
        if state is None:
            return None
        _known[refusal] = state
    return _known[refusal]


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
