"""What a change of a table's schema means for those who follow it: nothing, columns to be added, or a new copy.

Rows that are there already are the point: a default or a rewrite gives them values that no message carries.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from cdc.core.table import Column, Table

REWRITTEN = "its rows were rewritten, or not all of its changes were published for a while"


class Policy(StrEnum):
    """How far followers go along: with all, with columns that come, or with nothing."""

    EVOLVE = "evolve"
    ADDITIVE = "additive"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class SameShape:
    """Rows and messages are as before."""


@dataclass(frozen=True, slots=True)
class Widened:
    """The table with columns that are null in all rows that were there before."""

    table: Table
    told: str


@dataclass(frozen=True, slots=True)
class Altered:
    """Rows may be others than those that were followed, for this reason: only a copy has them."""

    told: str


SchemaChange = SameShape | Widened | Altered


def judged(followed: Table, now: Table, *, filled: Collection[str] = (), rewritten: bool = False) -> SchemaChange:
    """What changed from the table that is followed.

    `filled`: columns whose default stands in rows that are older than they are. `rewritten`: whether the values of rows
    were changed by the command itself.
    """
    came = now.columns[len(followed.columns) :]
    if rewritten:
        return Altered(", ".join(differences(followed, now)) or REWRITTEN)
    if not differences(followed, now):
        return SameShape()
    if differences(followed, replace(now, columns=now.columns[: len(followed.columns)])):
        return Altered(", ".join(differences(followed, now)))
    if any(column.name in filled for column in came):
        return Altered(f"{', '.join(differences(followed, now))}, with a default")
    added = tuple(replace(column, added=True) for column in came)
    return Widened(replace(followed, columns=followed.columns + added), ", ".join(differences(followed, now)))


def widens(was: Table, now: Table) -> bool:
    """Has this table the columns of that one, and more behind them?"""
    first = now.columns[: len(was.columns)]
    return was.key == now.key and was.columns == first and len(now.columns) > len(was.columns)


def differences(followed: Table, now: Table) -> Sequence[str]:
    """How the tables differ, a difference a text; none where they are the same."""
    was, has = ({column.name: column for column in table.columns} for table in (followed, now))
    return [
        *(f"column {name} came" for name in has if name not in was),
        *(f"column {name} went" for name in was if name not in has),
        *(
            f"column {name} was {_told(was[name])} and is {_told(has[name])}"
            for name in has
            if name in was and was[name] != has[name]
        ),
        *(
            f"column {name} went and came again"
            for name in has
            if name in was and was[name] == has[name] and 0 < was[name].number != has[name].number
        ),
        *(
            [f"its key was ({', '.join(followed.key)}) and is ({', '.join(now.key)})"]
            if followed.key != now.key
            else []
        ),
    ] or (["its columns stand in another order"] if followed != now else [])


def _told(column: Column) -> str:
    of = f"{column.kind}({column.precision}, {column.scale})" if column.precision else column.type or str(column.kind)
    return f"{of}[]" if column.array else of
