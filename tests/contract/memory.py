"""A follower that holds its tables in memory: the contract at its barest, for tests and for reading."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cdc.core.position import BEFORE_LOG, Bookmark, Position
from cdc.core.table import Table, TableName
from cdc.core.transaction import TransactionEnd
from tests.support.model import Change, Key, Row, apply


@dataclass(frozen=True, slots=True)
class ChangesInMemory:
    """A batch as values: whole transactions in commit order, and their changes in order."""

    ends: tuple[TransactionEnd, ...]
    changes: tuple[Change, ...]


@dataclass
class MemoryFollower:
    """A `Follower` of rows by key and `ChangesInMemory`; its fields are its whole state."""

    rows: dict[TableName, Mapping[Key, Row]] = field(default_factory=dict)
    loaded: dict[TableName, Bookmark] = field(default_factory=dict)
    reached: dict[TableName, int] = field(default_factory=dict)
    cut: Position | None = None

    def prepare(self, tables: Sequence[Table]) -> None:
        for table in tables:
            self.rows.setdefault(table.name, {})

    def load(self, table: Table, copy: Mapping[Key, Row], bookmark: Bookmark) -> None:
        self.rows[table.name], self.loaded[table.name] = dict(copy), bookmark

    def bookmarks(self) -> dict[TableName, Bookmark]:
        return dict(self.loaded)

    def position(self) -> Position | None:
        return self.cut

    def apply(self, batch: ChangesInMemory, position: Position) -> None:
        if self.cut and position.end_offset <= self.cut.end_offset:
            return
        for table, bookmark in self.loaded.items():
            self._apply_table(table, bookmark, batch, position.end_offset)
        self.cut = position

    def _apply_table(self, table: TableName, bookmark: Bookmark, batch: ChangesInMemory, end_offset: int) -> None:
        lacking = set(_lacking(batch.ends, self.reached.get(table, BEFORE_LOG), bookmark))
        changes = [c for c in batch.changes if c.table == table and c.place.rank in lacking]
        self.rows[table] = apply(self.rows[table], changes)
        self.reached[table] = max(self.reached.get(table, BEFORE_LOG), end_offset)


def _lacking(ends: Iterable[TransactionEnd], offset: int, bookmark: Bookmark) -> Iterable[int]:
    return (end.offset for end in ends if end.offset > offset and not bookmark.covers(end.lsn))
