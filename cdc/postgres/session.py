"""Sessions of asyncpg on a source, opened by the same connection string as those of psycopg."""

import socket
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

import asyncpg
from psycopg.conninfo import conninfo_to_dict

KEEPALIVE_IDLE_SECONDS: Final = 30
"""The silence after which the system asks whether the other end of a session is there: firewalls drop silent ones."""
KEEPALIVE_INTERVAL_SECONDS: Final = 10
KEEPALIVE_ASKED: Final = 9
"""How often it asks before it gives the session up: within two minutes."""
_KEEPALIVE: Final = {
    # Linux, then macOS
    "TCP_KEEPIDLE": KEEPALIVE_IDLE_SECONDS,
    "TCP_KEEPALIVE": KEEPALIVE_IDLE_SECONDS,
    "TCP_KEEPINTVL": KEEPALIVE_INTERVAL_SECONDS,
    "TCP_KEEPCNT": KEEPALIVE_ASKED,
}
_TLS: Final = ("sslmode", "sslrootcert", "sslcert", "sslkey")
NO_SETTINGS: Final[Mapping[str, str]] = {}


def is_bound(conninfo: str) -> bool:
    """Does the connection string ask for a login that is bound to its TLS channel, which asyncpg cannot do?"""
    return conninfo_to_dict(conninfo).get("channel_binding") == "require"


async def open_session(
    conninfo: str, sent: Sequence[str], settings: Mapping[str, str] = NO_SETTINGS
) -> asyncpg.Connection:
    """Open a session; the caller ends it. Raises asyncpg's errors, and OSError.

    `sent`: the settings of the connection string that the server is given. `settings`: further ones.
    """
    asked = {name: str(value) for name, value in conninfo_to_dict(conninfo).items() if value is not None}
    # a certificate's file can be named in an address only
    tls = urlencode([(name, asked[name]) for name in _TLS if name in asked])
    session = await asyncpg.connect(
        f"postgresql://?{tls}",
        # as libpq reads it: several, of which the first that has what is asked for counts
        host=asked["host"].split(","),
        port=int(asked["port"]),
        user=asked["user"],
        # never of its own file: where there is none, a certificate is to be let in
        password=asked.get("password", ""),
        database=asked["dbname"],
        timeout=float(asked.get("connect_timeout", 60)),
        server_settings={name: asked[name] for name in sent if name in asked} | dict(settings),
        target_session_attrs=asked.get("target_session_attrs"),
    )
    _keep_alive(session)
    return session


def _keep_alive(session: asyncpg.Connection) -> None:
    """Have the system ask on a silent session whether its other end is there, as libpq does."""
    # asyncpg has no option for it, and no other way to the socket
    channel = session._transport.get_extra_info("socket")
    if channel is None or channel.family == socket.AF_UNIX:
        return
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if option := getattr(socket, name, None):
            channel.setsockopt(socket.IPPROTO_TCP, option, value)
