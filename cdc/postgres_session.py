"""Sessions of asyncpg on a source, opened by the same connection string as those of psycopg."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

import asyncpg
from psycopg.conninfo import conninfo_to_dict

NO_SETTINGS: Final[Mapping[str, str]] = {}


async def open_session(
    conninfo: str, sent: Sequence[str], settings: Mapping[str, str] = NO_SETTINGS
) -> asyncpg.Connection:
    """Open a session; the caller ends it. Raises asyncpg's errors, and OSError.

    `sent`: the settings of the connection string that the server is given. `settings`: further ones.
    """
    asked = {name: str(value) for name, value in conninfo_to_dict(conninfo).items() if value is not None}
    # a certificate's file can be named in an address only
    tls = urlencode([(name, asked[name]) for name in ("sslmode", "sslrootcert") if name in asked])
    return await asyncpg.connect(
        f"postgresql://?{tls}",
        host=asked["host"],
        port=int(asked["port"]),
        user=asked["user"],
        password=asked.get("password"),
        database=asked["dbname"],
        timeout=float(asked.get("connect_timeout", 60)),
        server_settings={name: asked[name] for name in sent if name in asked} | dict(settings),
    )
