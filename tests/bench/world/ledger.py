"""Every commit of a stretch of time, with its time and its place, as Postgres' own log has it.

A logical slot of the bench's own is read when the stretch is over, so that nothing is written down meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

from tests.bench.world.source import Source

NAME = "bench_ledger"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
"""From which Postgres counts (its documentation, "Logical Replication Message Formats")."""

_COMMITS = (
    "SELECT xid::text::bigint, data FROM pg_logical_slot_get_binary_changes("
    "%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s) WHERE get_byte(data, 0) = ascii('C')"
)


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction: its id, where it ends in the log, and its commit by the wall clock."""

    xid: int
    lsn: int
    at: float


class Ledger:
    """What `ledger` gives; to be read once."""

    def __init__(self, connection: "psycopg.Connection[Any]", name: str) -> None:
        self._connection = connection
        self._name = name

    def commits(self) -> list[Commit]:
        """The transactions that changed a table of the bench since, in the order of their commits."""
        rows = self._connection.execute(_COMMITS, (self._name, self._name)).fetchall()
        return [commit_of(xid, data) for xid, data in rows]


@contextmanager
def ledger(source: Source) -> Iterator[Ledger]:
    """Keep book of the commits of a database as long as the context lasts."""
    # slots are the cluster's, and several databases may have a ledger
    name = f"{NAME}_{source.database}"
    with source.connection() as connection:
        connection.execute(f"CREATE PUBLICATION {name} FOR ALL TABLES".encode())
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))
        try:
            yield Ledger(connection, name)
        finally:
            connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
            connection.execute(f"DROP PUBLICATION {name}".encode())


def commit_of(xid: int, message: bytes) -> Commit:
    """Read a Commit message: one byte of kind and one of flags, the commit's LSN, its end, and microseconds."""
    microseconds = int.from_bytes(message[18:26], "big", signed=True)
    return Commit(xid, int.from_bytes(message[10:18], "big"), _EPOCH + microseconds / 1e6)
