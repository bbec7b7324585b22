"""A follower of two tables that runs transaction by transaction, and the rows expected then."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from cdc.columns.netting.batch import DecodedBatch, TableChanges
from cdc.columns.netting.ends import to_columns
from cdc.core.position import Bookmark, Lsn, Position
from cdc.core.table import Table, TableName
from cdc.core.table_state import Joining
from cdc.core.transaction import TransactionEnd
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.settings import DeltaSettings
from tests.support.histories import THINGS
from tests.support.lake.places import PlacedLake
from tests.support.lake.tables import row, write_copy
from tests.support.model import Change, CommitOrder, Key, Row, Update
from tests.support.model_changes import as_columns

OTHERS = Table(TableName("public", "others"), THINGS.columns, ("id",))
TABLES = (THINGS, OTHERS)
KEYS = range(40)


def follower_of(lake: PlacedLake, histories: Sequence[TableName] = ()) -> DeltaFollower:
    """Open the follower as a new process does."""
    settings = DeltaSettings(kind="delta", path=lake.path)
    follower = DeltaFollower(settings, lake, lake.indexes / "index", histories=histories)
    follower.prepare(TABLES)
    return follower


def bootstrap_follower(lake: PlacedLake, histories: Sequence[TableName] = ()) -> DeltaFollower:
    """A follower with copies of both tables at LSN 1, and a first cut."""
    follower = follower_of(lake, histories)
    for table in TABLES:
        copy(lake, follower, table, 1, "copy")
    follower.first_cut(0)
    return follower


def copy(lake: PlacedLake, follower: DeltaFollower, table: Table, lsn: int, text: str) -> None:
    """Copy a table with this text in all rows, and let it join the cuts."""
    load_copy(lake, follower, table, lsn, text)
    follower.tables.adopt(follower.tables.select(Joining))


def load_copy(lake: PlacedLake, follower: DeltaFollower, table: Table, lsn: int, text: str) -> None:
    """Copy a table with this text in all rows."""
    rows = [row(key, text) for key in KEYS]
    follower.load(table, [write_copy(lake, table, rows)], Bookmark(Lsn(lsn), 4711, 1))
    follower.tables.forget([table.name])


def transact(follower: DeltaFollower, *numbers: int, only: Sequence[int] = KEYS) -> list[str]:
    """Apply these transactions as one batch; each updates these rows of both tables. Returns the stops."""
    counts = {str(table.name): len(only) for table in TABLES}
    ends = to_columns([TransactionEnd(n, n, Lsn(n), 0, counts) for n in numbers])
    changes = {table.name: _changes(table, numbers, only) for table in TABLES}
    applied = follower.apply(DecodedBatch(ends, changes), Position(numbers[-1], Lsn(numbers[-1]), numbers[-1]))
    return [str(stop) for stop in applied.stopped]


def _changes(table: Table, numbers: Sequence[int], keys: Sequence[int]) -> TableChanges:
    changes: list[Change] = [
        Update(table.name, CommitOrder(n, at + 1), (key,), row(key, f"at {n}"))
        for n in numbers
        for at, key in enumerate(keys)
    ]
    return TableChanges(as_columns(table, changes), np.array([change.place.rank for change in changes], np.int64))


def rows_at(text: str) -> Mapping[Key, Row]:
    return {(key,): row(key, text) for key in KEYS}


def rows_in(lake: PlacedLake, table: Table) -> Mapping[Key, Row]:
    """The rows of a table at the newest cut."""
    feed = LakeFeed(None, lake)
    state = feed._snapshot(table.name, feed.last_cut())
    parts = [
        part for file in state.files.values() for part in live_rows(lake.table_storage(table.name), Share(file), table)
    ]
    rows = pa.concat_tables(parts).to_pylist()
    by_key: dict[Key, Row] = {tuple(values[name] for name in table.key): values for values in rows}
    assert len(by_key) == len(rows), "a key is there twice"
    return by_key


def cut_tables(lake: PlacedLake) -> set[str]:
    """The tables in the newest cut."""
    return {*LakeFeed(None, lake).last_cut().versions}
