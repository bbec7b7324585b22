"""The leader of a bench: its tables, and what is written to them, by procedures that run in Postgres itself.

A client would need a core of its own for a thousand transactions a second, and the sides share the machine with it.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from tests.bench.world.parts import Parts

COLUMNS = ("id", "xid", "seq", "writer", "amount", "note", "written_at")
"""Of every table of a bench: key, who wrote the row, and a numeric, a nullable text and a time to be compared."""

_TYPES = (
    "id bigint PRIMARY KEY, xid bigint NOT NULL, seq bigint NOT NULL, writer integer NOT NULL,"
    " amount numeric(12, 2) NOT NULL, note text, written_at timestamptz NOT NULL"
)
_TOUCH: LiteralString = (
    "INSERT INTO {0} VALUES (0, pg_current_xact_id()::text::bigint, 0, 0, 0, NULL, clock_timestamp())"
    " ON CONFLICT (id) DO UPDATE SET xid = EXCLUDED.xid, written_at = EXCLUDED.written_at"
)
_SPREAD: LiteralString = (
    "UPDATE {0} SET xid = pg_current_xact_id()::text::bigint, amount = amount + 1, written_at = clock_timestamp()"
    " WHERE id IN (SELECT 1 + floor(random() * %(keys)s)::bigint FROM generate_series(1, %(changes)s))"
)
FRESH_KEYS = 1_000_000_000
"""New keys begin here and never come twice, far above those that a table is filled with."""

SLICE = 1_000_000
"""Rows that one statement fills in."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: the last transaction's id, and how many changes of rows there were."""

    xid: int
    changes: int


@dataclass(frozen=True, slots=True)
class Source:
    """A database of the parts' Postgres, with the bench's procedures in it."""

    parts: Parts
    database: str
    _blocks: "Iterator[int]" = field(default_factory=itertools.count)

    @classmethod
    def made(cls, parts: Parts, database: str) -> "Source":
        """Make the database."""
        parts.make_database(database)
        source = cls(parts, database)
        with source.connection() as connection:
            connection.execute(Path(__file__).with_suffix(".sql").read_bytes())
        return source

    def connection(self) -> "psycopg.Connection[Any]":
        return self.parts.connection(self.database)

    def table(self, name: str, rows: int) -> None:
        """Make a table with keys 1 to `rows`, vacuumed and analysed like one that has stood for a while."""
        with self.connection() as connection:
            connection.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(name), sql.SQL(_TYPES)))
            for first in range(1, rows + 1, SLICE):
                connection.execute("CALL bench_fill(%s, %s, %s)", (name, first, min(first + SLICE - 1, rows)))
            connection.execute(sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier(name)))

    def touch(self, names: Sequence[str]) -> Written:
        """Change one row of each table, inserted where it is not there, in one transaction."""
        return self._in_one(_TOUCH, names, {})

    def spread(self, names: Sequence[str], keys: int, changes: int) -> Written:
        """Change about so many random rows of each table, in one transaction."""
        return self._in_one(_SPREAD, names, {"keys": keys, "changes": changes})

    def _in_one(self, statement: LiteralString, names: Sequence[str], values: Mapping[str, int]) -> Written:
        changes = 0
        with self.connection() as connection, connection.transaction():
            for name in names:
                changes += connection.execute(sql.SQL(statement).format(sql.Identifier(name)), values).rowcount
            row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        assert row is not None
        return Written(row[0], changes)

    def pace(self, name: str, keys: int, rate: float, seconds: float, writers: int) -> None:
        """Single-row transactions at `rate` a second for so many seconds, from so many backends together."""
        # places go up from call to call, and are about the same for all writers
        place = self._fresh() - FRESH_KEYS + 1
        calls = [(name, keys, self._fresh(), n + 1, place, rate / writers, seconds) for n in range(writers)]
        with ThreadPoolExecutor(writers) as threads:
            for done in [threads.submit(self._call, "bench_pace", *values) for values in calls]:
                done.result()

    def _call(self, procedure: str, *values: object) -> None:
        places = ", ".join(["%s"] * len(values))
        with self.connection() as connection:
            connection.execute(f"CALL {procedure}({places})".encode(), values)

    def burst(self, name: str, keys: int, transactions: int) -> Written:
        """So many single-row transactions as fast as one backend can, none waiting for the disk, and a last one."""
        with self.connection() as connection:
            connection.execute("SET synchronous_commit = off")
            connection.execute("CALL bench_burst(%s, %s, %s, 1, %s)", (name, keys, self._fresh(), transactions))
        return Written(self.touch([name]).xid, transactions)

    def batch(self, name: str, keys: int, changes: int) -> Written:
        """One transaction of about so many changes."""
        with self.connection() as connection:
            call = "CALL bench_batch(%s, %s, %s, %s, NULL, NULL)"
            row = connection.execute(call, (name, keys, self._fresh(), changes)).fetchone()
        assert row is not None
        return Written(*row)

    def batches(self, name: str, keys: int, transactions: int, changes: int) -> Written:
        """So many transactions of about so many changes each."""
        written = [self.batch(name, keys, changes) for _ in range(transactions)]
        return Written(written[-1].xid, sum(each.changes for each in written))

    def forget_notes(self) -> None:
        """From now on `notes` tells of what comes."""
        with self.connection() as connection:
            connection.execute("TRUNCATE bench_notes")

    def notes(self) -> dict[int, tuple[int, int]]:
        """Writer and place of every paced transaction, by its id."""
        with self.connection() as connection:
            rows = connection.execute("SELECT xid, writer, seq FROM bench_notes").fetchall()
        return {xid: (writer, seq) for xid, writer, seq in rows}

    def last_places(self, name: str) -> dict[int, int]:
        """By writer, the highest place of a row that is still there as that writer left it."""
        query = sql.SQL("SELECT writer, max(seq) FROM {} WHERE writer > 0 GROUP BY writer").format(sql.Identifier(name))
        with self.connection() as connection:
            return dict(connection.execute(query).fetchall())

    def _fresh(self) -> int:
        """Where a call's new keys begin."""
        return FRESH_KEYS + next(self._blocks) * SLICE * 10
