"""Classifies a change of a table's schema: followers do nothing, add columns, or need a new copy.

The existing rows decide: a default or a rewrite changes their values, and no change event carries those.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from cdc.core.table import Column, Table

REWRITTEN = "its rows were rewritten, or not all of its changes were published for a while"


class Policy(StrEnum):
    """Which schema changes followers take over: all, added columns only, or none."""

    EVOLVE = "evolve"
    ADDITIVE = "additive"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class SameShape:
    """The change affects neither rows nor messages."""


@dataclass(frozen=True, slots=True)
class Widened:
    """`table` has further columns, null in all existing rows; `description` names them."""

    table: Table
    description: str


@dataclass(frozen=True, slots=True)
class Altered:
    """Existing rows may have other values, as `description` says: only a new copy has them."""

    description: str


SchemaChange = SameShape | Widened | Altered


def diff_tables(followed: Table, now: Table, *, filled: Collection[str] = (), rewritten: bool = False) -> SchemaChange:
    """Classify the difference between the followed table and the table as it is now.

    `filled`: columns whose default fills existing rows. `rewritten`: the command itself changed values of rows.
    """
    # Postgres appends new columns, so they are the last ones
    new_columns = now.columns[len(followed.columns) :]
    differences = ", ".join(describe_differences(followed, now))
    # first: a rewrite changes values even if the columns look the same (ALTER TYPE … USING and back)
    if rewritten:
        return Altered(differences or REWRITTEN)
    if not differences:
        return SameShape()
    # compared without the new columns: any other difference needs a copy
    if describe_differences(followed, replace(now, columns=now.columns[: len(followed.columns)])):
        return Altered(differences)
    # the publication and Kafka Connect hold back a column that they do not know, until it is copied
    if followed.is_masked:
        return Altered(differences)
    # ADD COLUMN … DEFAULT fills existing rows without change events
    if any(column.name in filled for column in new_columns):
        return Altered(f"{differences}, with a default")
    # the decoder then lets older messages miss them
    added = tuple(replace(column, added=True) for column in new_columns)
    return Widened(replace(followed, columns=followed.columns + added), differences)


def has_more_columns(was: Table, now: Table) -> bool:
    """Has `now` all columns and the key of `was`, and further columns behind them?"""
    first = now.columns[: len(was.columns)]
    is_wider = was.key == now.key and was.columns == first and len(now.columns) > len(was.columns)
    return is_wider and not was.is_masked


def describe_differences(followed: Table, now: Table) -> Sequence[str]:
    """Describe the differences, one text each; empty if there are none."""
    was, has = ({column.name: column for column in table.columns} for table in (followed, now))
    return [
        *(f"column {name} came" for name in has if name not in was),
        *(f"column {name} went" for name in was if name not in has),
        *(
            f"column {name} was {_describe_type(was[name])} and is {_describe_type(has[name])}"
            for name in has
            if name in was and was[name] != has[name]
        ),
        *(
            # same name and type under another attnum: dropped and added again, so its values are gone
            f"column {name} went and came again"
            for name in has
            if name in was and was[name] == has[name] and 0 < was[name].number != has[name].number
        ),
        *(
            [f"its key was ({', '.join(followed.key)}) and is ({', '.join(now.key)})"]
            if followed.key != now.key
            else []
        ),
        *(
            [f"its rows were {_describe_rows(followed)} and are {_describe_rows(now)}"]
            if followed.where != now.where
            else []
        ),
        *(
            [f"columns left out were {_describe_dropped(followed)} and are {_describe_dropped(now)}"]
            if followed.dropped != now.dropped
            else []
        ),
        # all columns and the key are the same: only the order is left
    ] or (["its columns stand in another order"] if followed != now else [])


def _describe_rows(table: Table) -> str:
    return f"those where {table.where}" if table.where else "all"


def _describe_dropped(table: Table) -> str:
    return ", ".join(column.name for column in table.dropped) or "none"


def _describe_type(column: Column) -> str:
    if column.mask:
        return f"masked as {column.mask}"
    of = f"{column.kind}({column.precision}, {column.scale})" if column.precision else column.type or str(column.kind)
    return f"{of}[]" if column.array else of
