"""Why a server lets nobody in, by its SQLSTATE: its texts are in the language that it is set to (`lc_messages`)."""

import asyncio
from urllib.parse import urlencode

import asyncpg
import psycopg
from psycopg.conninfo import conninfo_to_dict

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
    asked = {name: str(value) for name, value in conninfo_to_dict(conninfo).items() if value is not None}
    # a certificate's file can be named in an address only
    tls = urlencode([(name, asked[name]) for name in ("sslmode", "sslrootcert") if name in asked])
    connection = await asyncpg.connect(
        f"postgresql://?{tls}",
        host=asked["host"],
        port=int(asked["port"]),
        user=asked["user"],
        password=asked.get("password"),
        database=asked["dbname"],
        timeout=float(asked.get("connect_timeout", 60)),
        # what the first client has sent: the server may refuse one of these
        server_settings={name: asked[name] for name in _SENT if name in asked},
    )
    connection.terminate()
