"""The model of a table, which every follower is compared with: rows and changes in, rows out.

A change of one row is a frozen type for each operation; a value that Postgres leaves out is a type, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cdc.core.table import TableName

Value = bool | int | float | str | bytes | None
"""A column's value in the model; engines have their own."""

Key = tuple[Value, ...]


# an enum of one member, not an object(): mypy narrows `is UNCHANGED` to the other types
class Unchanged(Enum):
    """A TOAST value that an update did not touch: Postgres does not send it (manual, "TOAST")."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged.UNCHANGED

Row = Mapping[str, Value]
SentRow = Mapping[str, Value | Unchanged]


@dataclass(frozen=True, slots=True, order=True)
class CommitOrder:
    """The total order of changes: `rank` is the offset of the transaction's END, `total_order` counts inside of it."""

    rank: int
    total_order: int


@dataclass(frozen=True, slots=True)
class Insert:
    """A row under a new key. An update of a key is a Delete and this Insert, `moved_from` the old key."""

    table: TableName
    place: CommitOrder
    key: Key
    row: SentRow
    moved_from: Key | None = None


@dataclass(frozen=True, slots=True)
class Update:
    table: TableName
    place: CommitOrder
    key: Key
    row: SentRow


@dataclass(frozen=True, slots=True)
class Delete:
    """A row is deleted; `moved_to` is the row's new key if an update changed it."""

    table: TableName
    place: CommitOrder
    key: Key
    moved_to: Key | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    table: TableName
    place: CommitOrder


Change = Insert | Update | Delete | Truncate
Rows = Mapping[Key, Row]


def apply(rows: Rows, changes: Iterable[Change]) -> dict[Key, Row]:
    """Apply the changes of whole transactions to one table's rows, in order."""
    after: dict[Key, Row] = dict(rows)
    # the old rows of key updates, by new key: an update of a key is a Delete and an Insert, in this order
    moving: dict[Key, Row] = {}
    for change in changes:
        match change:
            case Insert(key=key, row=row, moved_from=old):
                # a plain insert sends every value; only a key update leaves some in the row under its old key
                after[key] = _merge_sent({} if old is None else moving.pop(key, {}), row)
            case Update(key=key, row=row):
                after[key] = _merge_sent(after.get(key, {}), row)
            case Delete(key=key, moved_to=new):
                gone = after.pop(key, {})
                if new is not None:
                    # for the Insert of the new key, which comes next: it takes its unsent values from this row
                    moving[new] = gone
            case Truncate():
                after.clear()
    return after


def _merge_sent(older: Row, row: SentRow) -> Row:
    return {name: older.get(name) if value is UNCHANGED else value for name, value in row.items()}
