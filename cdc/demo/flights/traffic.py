"""Runs a workload: reads the keys that exist, and writes the planned transactions one after the other."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import assert_never

from psycopg import Connection, sql

from cdc.core.errors import PreconditionError
from cdc.demo.flights.data import KEYS
from cdc.demo.flights.workload import (
    TAIL,
    DeleteRow,
    ExistingKeys,
    InsertRow,
    Key,
    PlannedTransaction,
    RowChange,
    UpdateRow,
)
from cdc.postgres.values import read_value


@dataclass(frozen=True, slots=True)
class WriteCounts:
    """Counts of changed rows, of committed transactions, and of those rolled back."""

    changes: int = 0
    transactions: int = 0
    rolled_back: int = 0

    def add(self, transaction: PlannedTransaction) -> "WriteCounts":
        if not transaction.is_committed:
            return replace(self, rolled_back=self.rolled_back + 1)
        return replace(self, changes=self.changes + len(transaction.changes), transactions=self.transactions + 1)


def read_keys(connection: Connection, seed: int) -> ExistingKeys:
    """The keys of the flights and the weather of one day of every month, and of all planes and airlines."""
    # 1 to 28: a day that every month has
    day = 1 + seed % 28
    return ExistingKeys(
        flights=_keys(connection, "flights", day),
        planes=_keys(connection, "planes"),
        weather=_keys(connection, "weather", day),
        airlines=_keys(connection, "airlines"),
        # above the airlines' own numbers, which have four digits
        last_flight=max(10_000, read_value(connection, "SELECT max(flight) FROM flights") or 0),
        last_plane=max(read_value(connection, _last_tail(table)) or 0 for table in ("planes", "flights")),
    )


def carry_out(
    connection: Connection, plan: Iterable[PlannedTransaction], advance: Callable[[int], None]
) -> WriteCounts:
    """Write the transactions; `advance` gets the number of changed rows of each.

    Raises PreconditionError when a row is not as planned: then somebody else writes to the tables, too.
    """
    written = WriteCounts()
    for transaction in plan:
        # rolled back after all its writes: their WAL exists, and decoding has to leave it out
        with connection.transaction(force_rollback=not transaction.is_committed):
            for change in transaction.changes:
                _write(connection, change)
        written = written.add(transaction)
        advance(len(transaction.changes) if transaction.is_committed else 0)
    return written


def _write(connection: Connection, change: RowChange) -> None:
    match change:
        case InsertRow(table, row):
            cursor = connection.execute(_insert(table, tuple(row)), tuple(row.values()))
        case UpdateRow(table, key, values):
            cursor = connection.execute(_update(table, tuple(values)), (*values.values(), *key))
        case DeleteRow(table, key):
            cursor = connection.execute(_delete(table), key)
        case _:
            assert_never(change)
    # otherwise the counts would tell of a change that never was
    if cursor.rowcount != 1:
        raise PreconditionError(f"a row of {table} is not there any more", "let nobody else write to the demo's tables")


@cache
def _insert(table: str, columns: tuple[str, ...]) -> bytes:
    # cached here and below: composed once for all rows with these columns
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    values = sql.SQL(", ").join(sql.Placeholder() for _ in columns)
    return sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(sql.Identifier(table), names, values).as_bytes()


@cache
def _update(table: str, columns: tuple[str, ...]) -> bytes:
    values = sql.SQL(", ").join(map(_equals, columns))
    return sql.SQL("UPDATE {} SET {} WHERE {}").format(sql.Identifier(table), values, _by_key(table)).as_bytes()


@cache
def _delete(table: str) -> bytes:
    return sql.SQL("DELETE FROM {} WHERE {}").format(sql.Identifier(table), _by_key(table)).as_bytes()


def _by_key(table: str) -> sql.Composed:
    return sql.SQL(" AND ").join(map(_equals, KEYS[table]))


def _equals(column: str) -> sql.Composed:
    return sql.SQL("{} = {}").format(sql.Identifier(column), sql.Placeholder())


def _keys(connection: Connection, table: str, day: int | None = None) -> list[Key]:
    columns = sql.SQL(", ").join(map(sql.Identifier, KEYS[table]))
    wanted = sql.SQL("" if day is None else "WHERE day = {}").format(sql.Literal(day))
    # ordered: the plan draws keys by their place, and is to be the same for a seed
    query = sql.SQL("SELECT {} FROM {} {} ORDER BY {}").format(columns, sql.Identifier(table), wanted, columns)
    return connection.execute(query).fetchall()


def _last_tail(table: str) -> sql.Composed:
    """A query for the highest number after TAIL. Flights count, too: they may name a plane that was deleted."""
    query = "SELECT max(substr(tailnum, {})::int) FROM {} WHERE starts_with(tailnum, {})"
    return sql.SQL(query).format(sql.Literal(len(TAIL) + 1), sql.Identifier(table), sql.Literal(TAIL))
