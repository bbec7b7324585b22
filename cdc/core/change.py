"""A change of one row: a frozen type for each operation; values that Postgres leaves out are a type, too."""

from collections.abc import Mapping
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
