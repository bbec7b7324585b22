"""What every session of ours is told when it begins, whatever the server, the database or the role would have it be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from psycopg import Connection, sql

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
"""With these, a value is one text."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A setting that can end a session or a command, the value that lets both last, and the first version with it."""

    name: str
    value: str = "0"
    since: int = 0


BOUNDS: Final = (
    # a COPY takes as long as its table is large; the keeper of a snapshot idles in its transaction meanwhile
    Bound("statement_timeout"),
    Bound("idle_in_transaction_session_timeout"),
    # where somebody else's lock is not to be waited for, a session says so itself
    Bound("lock_timeout"),
    Bound("tcp_user_timeout"),
    Bound("idle_session_timeout", since=140_000),
    Bound("transaction_timeout", since=170_000),
)

LEFT_ALONE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "deadlock_timeout": "it says when a deadlock is looked for, and ends nobody who is in none",
        "wal_sender_timeout": "it is for a sender that streams, and Debezium's is told `sender_timeout`",
    }
)
"""Time-outs that a role may set and that do our sessions no harm, and why."""

WRITING: Final[Mapping[str, str]] = MappingProxyType(
    {"default_transaction_read_only": "off", "default_transaction_isolation": "read committed"}
)
"""With these, a session may write, and sees what others have committed meanwhile."""

_SHORTEST_SENDER_SECONDS: Final = 60
"""The server's own default: a shorter one ends a sender whose reader waits for Kafka."""


def startup_options(version: int, **further: str) -> str:
    """The settings as `options` of a connection's start, for a server of this version; 0 where it is not known yet."""
    bounds = {bound.name: bound.value for bound in BOUNDS if bound.since <= version}
    settings = {**TEXT, **WRITING, **bounds, **further}
    # a space would end the argument
    return " ".join("-c {}={}".format(name, value.replace(" ", "\\ ")) for name, value in settings.items())


def later_settings(version: int) -> Iterator[sql.Composed]:
    """Expressions that set what a session cannot be told at its start, since older servers do not know it."""
    for bound in BOUNDS:
        if 0 < bound.since <= version:
            yield sql.SQL("set_config({}, {}, false)").format(sql.Literal(bound.name), sql.Literal(bound.value))


def sender_options(connection: Connection) -> dict[str, str]:
    """What the connector's sessions are told beside that: a sender's time-out, where it is too short."""
    row = connection.execute("SELECT setting::bigint FROM pg_settings WHERE name = 'wal_sender_timeout'").fetchone()
    milliseconds = row[0] if row else 0
    is_short = 0 < milliseconds < _SHORTEST_SENDER_SECONDS * 1000
    return {"wal_sender_timeout": f"{_SHORTEST_SENDER_SECONDS}s"} if is_short else {}
