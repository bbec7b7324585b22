"""Why a server lets nobody in, by its SQLSTATE: its texts are in the language that it is set to (`lc_messages`)."""

import asyncio

import asyncpg
import psycopg

from cdc.postgres_session import open_session

UNAUTHENTICATED = "28P01"
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
    try:
        asyncio.run(_try_to_connect(conninfo))
    except asyncpg.PostgresError as refusal:
        return str(refusal.sqlstate)
    except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        return None
    return None


async def _try_to_connect(conninfo: str) -> None:
    # with all that the first client has sent: the server may refuse one of these
    connection = await open_session(conninfo, _SENT)
    connection.terminate()
