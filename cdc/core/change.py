"""What a change is: one frozen type a kind, with what Postgres may omit in the type."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cdc.core.table import TableName

Value = bool | int | float | str | bytes | None
"""A column's value in the model; engines have their own."""

Key = tuple[Value, ...]


class Unchanged(Enum):
    """A TOAST value that the update left alone and Postgres therefore did not send (manual, "TOAST")."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged.UNCHANGED

Row = Mapping[str, Value]
SentRow = Mapping[str, Value | Unchanged]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """The total order of changes: the rank of the transaction's END, then the place inside the transaction."""

    rank: int
    total_order: int


@dataclass(frozen=True, slots=True)
class Insert:
    """A row under a new key; a changed key arrives as a Delete of the old one and this, `moved_from` it."""

    table: TableName
    place: Place
    key: Key
    row: SentRow
    moved_from: Key | None = None


@dataclass(frozen=True, slots=True)
class Update:
    table: TableName
    place: Place
    key: Key
    row: SentRow


@dataclass(frozen=True, slots=True)
class Delete:
    """A row is gone; `moved_to` names the key under which it goes on when its key was changed."""

    table: TableName
    place: Place
    key: Key
    moved_to: Key | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    table: TableName
    place: Place


Change = Insert | Update | Delete | Truncate
