"""The table of a history: its name, its columns, and how a version is told from a change that only ends one."""

from dataclasses import replace
from typing import Final

from cdc.core.table import Column, Kind, Table, TableName

SUFFIX: Final = "_history"
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


def history_name(name: TableName) -> TableName:
    """The name under which a table's history lies in the lake, beside it: `public.prices_history`."""
    return TableName(name.schema, f"{name.table}{SUFFIX}")


def history_table(table: Table) -> Table:
    """The history's table: a row for each version of a row, and for each change that only ends one."""
    columns = (*(replace(column, number=0) for column in table.columns), *FURTHER)
    return Table(history_name(table.name), columns, (*table.key, SEQUENCE))


def find_obstacle(table: Table) -> str | None:
    """Why no history of a table can be kept; None if it can."""
    if not table.key:
        return "it has no key, so that its versions cannot be told apart"
    taken = {column.name for column in FURTHER} & {*table.column_names}
    return f"it has a column {min(taken)}, which a history has, too" if taken else None
