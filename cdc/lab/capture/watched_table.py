"""A table of orders that somebody writes to and somebody watches; one transaction is open while others commit."""

import time
from enum import StrEnum
from statistics import median
from typing import Final

import psycopg

from cdc.lab.capture.readers import CaptureWay, Version
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Span
from cdc.lab.workplace import Workplace


class OrdersWrite(StrEnum):
    """What a transaction does to its orders. A late one inserts them, and commits after everyone has looked."""

    LATE = "late commits"
    INSERT = "inserts"
    UPDATE = "versions"
    DELETE = "deletes"
    TRUNCATE = "truncates"


OTHERS: Final = "other transactions"
LATECOMER: Final = "a late one"
POLLING: Final = "polling"
Planned = tuple[OrdersWrite, tuple[int, ...]]
_INSERT: Final = "INSERT INTO orders SELECT unnest(%s::int[]), 1, now()"
_STATEMENTS: Final = {
    OrdersWrite.LATE: _INSERT,
    OrdersWrite.INSERT: _INSERT,
    OrdersWrite.UPDATE: "UPDATE orders SET version = version + 1, updated_at = now() WHERE id = ANY(%s)",
    OrdersWrite.DELETE: "DELETE FROM orders WHERE id = ANY(%s)",
    OrdersWrite.TRUNCATE: "TRUNCATE orders",
}


class WatchedTable:
    """The table in a schema of its own, who writes to it, and who watches it. Times are in ms."""

    def __init__(self, place: Workplace, way: CaptureWay, dsn: str) -> None:
        options = f"-c search_path={way.schema}"
        self._writer, self._late, watcher = (
            place.keep(psycopg.connect(dsn, autocommit=True, options=options)) for _ in range(3)
        )
        self._writer.execute(f"CREATE SCHEMA {way.schema}; {way.tables}".encode())
        self._changes = way.read(watcher)
        self._late_began = 0.0
        self._costs: list[float] = []
        self.name = way.name
        self.seen: list[Version] = []
        self.spans: list[Span] = []
        self.looks: list[float] = []
        self.look()

    @property
    def milliseconds(self) -> float:
        """The median of an update, without its commit, whose wait for the disk is no matter of the way."""
        return median(self._costs)

    def look(self) -> None:
        self.seen += next(self._changes)
        self.looks.append(_read_clock())

    def write(self, planned: Planned) -> None:
        """Carry out a transaction, and commit it; a late one stays open."""
        kind, orders = planned
        began, given = _read_clock(), (list(orders),) if orders else ()
        if kind is OrdersWrite.LATE:
            self._late.execute("BEGIN")
            self._late.execute(_STATEMENTS[kind], given)
            self._late_began = began
        else:
            with self._writer.transaction():
                self._writer.execute(_STATEMENTS[kind], given)
                took = _read_clock() - began
            self.spans.append(Span(OTHERS, began, _read_clock()))
            if kind is OrdersWrite.UPDATE:
                self._costs.append(took)

    def commit_late(self) -> None:
        """Commit the transaction that is open."""
        self._late.execute("COMMIT")
        self.spans.append(Span(LATECOMER, self._late_began, _read_clock(), "open: nobody sees it", Tone.BAD))


def _read_clock() -> float:
    return time.monotonic() * 1000
