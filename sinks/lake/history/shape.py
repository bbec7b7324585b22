"""The table of a history: its name, its columns, and how a version is told from a change that only ends one."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from cdc.core.table import Column, Kind, Table, TableName

SUFFIX: Final = "_history"
_LATER: Final = re.compile(r"_\d+")
CHANGE, COMMITTED_AT, LSN, TX_ID = "_change", "_committed_at", "_lsn", "_tx_id"
SEQUENCE, BATCH, CHAIN = "_sequence", "_batch", "_chain"
FURTHER: Final = (
    Column(CHANGE, Kind.TEXT),  # copy, insert, update: a version begins; delete, truncate: it ends
    Column(COMMITTED_AT, Kind.TIMESTAMPTZ),  # the commit's time by the source's clock; of a copy, when it joined
    Column(LSN, Kind.BIGINT),  # the commit's LSN; of a copy, that of its snapshot
    Column(TX_ID, Kind.BIGINT),  # the source's transaction; null for a copy
    Column(SEQUENCE, Kind.BIGINT),  # the row's number in the history, from 1: the order of versions
    Column(BATCH, Kind.BIGINT),  # the number of the batch that added the row, from 1
    Column(CHAIN, Kind.TEXT),  # the digest of all rows up to the end of that batch (`chain.py`)
)
"""The columns behind those of the table, in this order."""
ADDED: Final = (SEQUENCE, BATCH, CHAIN)
"""Those that are added when a batch is written."""
COPY: Final = "copy"
"""The change of a row that came with a copy of its table."""
ENDS: Final = ("delete", "truncate")
"""Changes that end a version and begin none: such a row has the key's columns only."""


def history_name(name: TableName, epoch: int = 1) -> TableName:
    """The name of a table's history in the lake, beside it: `public.prices_history`; then `public.prices_history_2`."""
    return TableName(name.schema, f"{name.table}{SUFFIX}{'' if epoch == 1 else f'_{epoch}'}")


def find_tracked(name: TableName, histories: Iterable[TableName]) -> TableName | None:
    """The table whose history has this name, or may get it in a later epoch; None if it is nobody's.

    Names that differ in case only count as the same: SQL and some file systems take them so.
    """
    text = str(name).casefold()
    for tracked in histories:
        first = str(history_name(tracked)).casefold()
        if text == first or _LATER.fullmatch(text.removeprefix(first) if text.startswith(first) else ""):
            return tracked
    return None


def history_table(table: Table, epoch: int = 1) -> Table:
    """The history's table: a row for each version of a row, and for each change that only ends one."""
    columns = (*(replace(column, number=0) for column in table.columns), *FURTHER)
    return Table(history_name(table.name, epoch), columns, (*table.key, SEQUENCE))


def is_history(table: Table) -> bool:
    """Is this the table of a history, whether one is still asked for or not?"""
    return table.columns[-len(FURTHER) :] == FURTHER and table.key[-1:] == (SEQUENCE,)


def tracked_columns(history: Table) -> tuple[Column, ...]:
    """The columns of a history that are its table's, or were."""
    further = {column.name for column in FURTHER}
    return tuple(column for column in history.columns if column.name not in further)


def widen(history: Table, table: Table) -> Table:
    """The history's table with all columns of `table` as well; one that went stays, for the versions that have it."""
    had = tracked_columns(history)
    names = {column.name for column in had}
    new = (replace(column, number=0) for column in table.columns if column.name not in names)
    return replace(history, columns=(*had, *new, *FURTHER))


def find_misfit(history: Table, table: Table) -> str | None:
    """Why the rows of `table` cannot stand in this history; None if they can, perhaps with further columns."""
    key = tuple(name for name in history.key if name != SEQUENCE)
    if key != table.key:
        return f"its key was ({', '.join(key)}) and is ({', '.join(table.key)})"
    had = {column.name: column for column in tracked_columns(history)}
    spelled = {name.casefold(): name for name in had}
    for column in table.columns:
        known = had.get(column.name)
        if known is None and (other := spelled.get(column.name.casefold())):
            return f"column {column.name} differs from {other}, which it had, by its case only"
        if known is not None and _values_of(known) != _values_of(column):
            return f"column {column.name} was {_describe(known)} and is {_describe(column)}"
    return None


def _values_of(column: Column) -> Column:
    """What decides how a column's values are written."""
    return replace(column, number=0, added=False, chosen="", separator=",", type="")


def _describe(column: Column) -> str:
    kind = f"{column.kind}({column.precision}, {column.scale})" if column.precision else str(column.kind)
    return f"{kind}[]" if column.array else kind


def find_obstacle(table: Table) -> str | None:
    """Why no history of a table can be kept; None if it can."""
    if not table.key:
        return "it has no key, so that its versions cannot be told apart"
    names = {column.name.casefold(): column.name for column in table.columns}
    taken = {column.name for column in FURTHER} & {*names}
    return f"it has a column {names[min(taken)]}, which a history has, too" if taken else None
