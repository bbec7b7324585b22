"""Every kind of follower behind one set of verbs, so that one suite holds all of them to the contract."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from cdc.core.position import Bookmark, Lsn, Position
from cdc.core.table import Column, Kind, Table, TableName
from cdc.core.transaction import TransactionEnd
from tests.contract.memory import ChangesInMemory, MemoryFollower
from tests.support.histories import THINGS, Sent
from tests.support.model import Key, Row

SYSTEM = 4711
OTHERS = Table(
    TableName("public", "others"),
    (Column("id", Kind.INTEGER), Column("small", Kind.INTEGER), Column("big", Kind.TEXT)),
    ("id",),
)
TABLES = (THINGS, OTHERS)


class Crash(Exception):
    """The process dies here."""


class Harness(Protocol):
    """A follower under test, on storage of its own."""

    def load(self, table: Table, rows: Mapping[Key, Row], bookmark: Bookmark) -> None: ...

    def apply(self, batch: ChangesInMemory, position: Position) -> None: ...

    def crash_in_apply(self, batch: ChangesInMemory, position: Position) -> None:
        """Apply until some table is written, then die, as far as this follower has such a point."""

    def restart(self) -> None:
        """Go on as a new process would: nothing is left but the storage."""

    def rows(self, table: Table) -> Mapping[Key, Row]: ...

    def position(self) -> Position | None: ...

    def bookmarks(self) -> Mapping[TableName, Bookmark]: ...


def bookmark(lsn: int) -> Bookmark:
    return Bookmark(Lsn(lsn), SYSTEM, 1)


def end(number: int) -> TransactionEnd:
    """Transaction `number` as the log has it: END at every second offset, LSNs by tens."""
    return TransactionEnd(2 * number + 1, 500 + number, Lsn(10 * number), 1_700_000_000_000 + number, {})


def batch_of(history: Sequence[tuple[int, Sent]]) -> tuple[ChangesInMemory, Position]:
    """Numbered transactions as a batch that reaches the last of them."""
    ends = tuple(end(number) for number, _ in history)
    changes = tuple(change for _, sent in history for change in sent.changes)
    return ChangesInMemory(ends, changes), Position(ends[-1].offset, ends[-1].lsn, ends[-1].tx_id)


class MemoryHarness:
    def __init__(self) -> None:
        self._follower = MemoryFollower()
        self._follower.prepare(TABLES)

    def load(self, table: Table, rows: Mapping[Key, Row], bookmark: Bookmark) -> None:
        self._follower.load(table, rows, bookmark)

    def apply(self, batch: ChangesInMemory, position: Position) -> None:
        self._follower.apply(batch, position)

    def crash_in_apply(self, batch: ChangesInMemory, position: Position) -> None:
        table = THINGS.name
        self._follower._apply_table(table, self._follower.loaded[table], batch, position.end_offset)

    def restart(self) -> None:
        f = self._follower
        self._follower = MemoryFollower(f.rows, f.loaded, f.reached, f.cut)

    def rows(self, table: Table) -> Mapping[Key, Row]:
        return self._follower.rows[table.name]

    def position(self) -> Position | None:
        return self._follower.position()

    def bookmarks(self) -> Mapping[TableName, Bookmark]:
        return self._follower.bookmarks()
