"""The settings of all our sessions: they override those of the server, the database and the role."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from psycopg import Connection, sql

from cdc.postgres.values import read_value

TEXT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "client_encoding": "UTF8",
        "DateStyle": "ISO",
        "IntervalStyle": "postgres",
        "TimeZone": "UTC",
        "extra_float_digits": "3",
        "bytea_output": "hex",
        "lc_monetary": "C",
    }
)
"""With these, each value has exactly one text."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A time-out setting, which 0 disables, and the first server version that has it."""

    name: str
    since: int = 0


BOUNDS: Final = (
    # a COPY may take hours, and the session that holds the snapshot idles in its transaction meanwhile
    Bound("statement_timeout"),
    Bound("idle_in_transaction_session_timeout"),
    # sessions that must not wait for locks set it themselves
    Bound("lock_timeout"),
    Bound("tcp_user_timeout"),
    Bound("idle_session_timeout", since=140_000),
    Bound("transaction_timeout", since=170_000),
)

LEFT_ALONE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "deadlock_timeout": "it only starts the search for a deadlock",
        "wal_sender_timeout": "it is for a sender that streams, and Debezium's is told `sender_timeout`",
    }
)
"""Harmless time-outs that a role may set → the reason."""

WRITING: Final[Mapping[str, str]] = MappingProxyType(
    {"default_transaction_read_only": "off", "default_transaction_isolation": "read committed"}
)
"""With these, a session may write, and sees later commits of others."""

_SHORTEST_SENDER_SECONDS: Final = 60
"""The server's default: a shorter time-out ends a sender while Debezium waits for Kafka."""


def startup_options(version: int, **further: str) -> str:
    """Make the `options` of a connection string, for a server of this version (0 if unknown)."""
    bounds = {bound.name: "0" for bound in BOUNDS if bound.since <= version}
    settings = {**TEXT, **WRITING, **bounds, **further}
    # a space would end the argument
    return " ".join("-c {}={}".format(name, value.replace(" ", "\\ ")) for name, value in settings.items())


def later_settings(version: int) -> Iterator[sql.Composed]:
    """Make expressions for the settings that a connection string cannot have, since older servers refuse them."""
    for bound in BOUNDS:
        if 0 < bound.since <= version:
            yield sql.SQL("set_config({}, '0', false)").format(sql.Literal(bound.name))


def sender_options(connection: Connection) -> dict[str, str]:
    """Make further settings for the connector's sessions: a longer wal_sender_timeout if the server's is too short."""
    milliseconds = read_value(connection, "SELECT setting::bigint FROM pg_settings WHERE name = 'wal_sender_timeout'")
    is_short = 0 < milliseconds < _SHORTEST_SENDER_SECONDS * 1000
    return {"wal_sender_timeout": f"{_SHORTEST_SENDER_SECONDS}s"} if is_short else {}
