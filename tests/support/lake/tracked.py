"""A lake without Spark whose table `things` has a history, beside `others`, which has none."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdc.columns.netting.batch import DecodedBatch, TableChanges
from cdc.columns.netting.ends import to_columns
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.position import Bookmark, Lsn, Position
from cdc.core.table import Table, TableName
from cdc.run.read.histories import find_epoch
from cdc.sinks.lake.apply.apply import AppliedBatch
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.history.chain import digest_batch, find_break
from cdc.sinks.lake.history.epochs import Epoch, OpenEpoch, list_epochs
from cdc.sinks.lake.history.shape import BATCH, CHAIN, CHANGE, ENDS, LSN, SEQUENCE
from cdc.sinks.lake.settings import DeltaSettings
from tests.contract.followers import OTHERS, SYSTEM, end
from tests.support.histories import THINGS
from tests.support.lake.places import PlacedLake
from tests.support.lake.tables import write_copy
from tests.support.model import Change, CommitOrder, Row, Truncate, Update
from tests.support.model_changes import as_columns

NAME: Final = THINGS.name
Values = dict[str, Any]
"""A row whose values are of any kind, arrays and decimals among them."""
ROWS: Final[tuple[Values, Values]] = ({"id": 1, "small": 1, "big": "a"}, {"id": 2, "small": 2, "big": "b"})


class TrackedLake:
    """Transaction n commits at LSN 10 n. Both tables are copied at LSN 5."""

    def __init__(self, lake: PlacedLake, table: Table = THINGS, rows: Sequence[Row] = ROWS) -> None:
        self.lake = lake
        self.table = table
        self.restart()
        self.follower.prepare([table, OTHERS])
        self.copy(table, rows, 5)
        self.copy(OTHERS, ROWS, 5)
        self.follower.first_cut(0)
        self.said = self.follower.histories.take_notes()

    def restart(self, histories: Collection[TableName] = (NAME,)) -> None:
        settings = DeltaSettings(kind="delta", path=self.lake.path)
        self.follower = DeltaFollower(settings, self.lake, self.lake.indexes / "index", histories=histories)
        self.follower.tables.adopt([NAME, OTHERS.name])

    def copy(self, table: Table, rows: Sequence[Row], lsn: int, *, anew: bool = False) -> None:
        files = [write_copy(self.lake, table, rows)] if rows else []
        self.follower.load(table, files, Bookmark(Lsn(lsn), SYSTEM, 1), anew=anew)

    def copy_again(self, table: Table, rows: Sequence[Row], number: int) -> None:
        """The table stops, is copied as another one in the middle of transaction `number`, and joins with its cut."""
        self.follower.tables.stop({NAME: "its schema has changed"}, copy=[NAME])
        self.apply(number - 1)
        self.table = table
        self.copy(table, rows, 10 * number - 5, anew=True)
        self.follower.tables.adopt([NAME])
        self.apply(number)

    def widen(self, table: Table, number: int) -> None:
        """Columns are added by transaction `number`."""
        self.follower.tables.all()[NAME].writer.add_columns(table, Lsn(10 * number))
        self.table = table
        self.apply(number)

    def apply(self, number: int, *changes: Change) -> AppliedBatch:
        """Apply one transaction, with its changes of either table."""
        there = end(number)
        found = dict[TableName, TableChanges]()
        for table in (self.table, OTHERS):
            own = [change for change in changes if change.table == table.name]
            if own:
                ranks = np.full(len(own), there.offset, np.int64)
                found[table.name] = TableChanges(as_columns(table, own, {there.offset: there.tx_id}), ranks)
        batch = DecodedBatch(to_columns([there]), found)
        applied = self.follower.apply(batch, Position(there.offset, there.lsn, there.tx_id))
        self.said += applied.notes
        return applied

    def put(self, number: int, row: Row, *, table: TableName = NAME) -> AppliedBatch:
        """Apply a transaction that updates a row."""
        key = self.table.key if table == NAME else OTHERS.key
        return self.apply(number, Update(table, CommitOrder(end(number).offset, 1), tuple(row[k] for k in key), row))

    def truncate(self, number: int) -> AppliedBatch:
        return self.apply(number, Truncate(NAME, CommitOrder(end(number).offset, 1)))

    def epochs(self) -> list[Epoch]:
        return list_epochs(self.lake, NAME, self.follower.cuts.last())

    def rows_of(self, epoch: OpenEpoch) -> pa.Table:
        """All rows of an epoch, in order."""
        storage, files = self.lake.table_storage(epoch.table.name), epoch.log.snapshot.files.values()
        parts = [part for file in files for part in live_rows(storage, Share(file), epoch.table)]
        return pa.concat_tables([arrow_schema(epoch.table).empty_table(), *parts]).sort_by(SEQUENCE)

    def as_of(self, lsn: int) -> tuple[tuple[str, ...], list[Mapping[str, Any]]]:
        """The table's columns and rows at an LSN, by its history."""
        epoch = find_epoch(self.epochs(), NAME, Lsn(lsn))
        shape = epoch.facts.find_shape(Lsn(lsn))
        last = dict[tuple[Any, ...], Mapping[str, Any]]()
        for row in self.rows_of(epoch).to_pylist():
            if row[LSN] <= lsn:
                last[tuple(row[name] for name in shape.key)] = row
        going = [row for row in last.values() if row[CHANGE] not in ENDS]
        return shape.columns, [{name: row[name] for name in shape.columns} for row in going]

    def find_breaks(self) -> list[int | None]:
        """The first batch of each epoch that does not fit; and whether the epochs fit together."""
        breaks, chain, batch = list[int | None](), "", 0
        for epoch in self.epochs():
            assert epoch.opened, epoch.why
            after, rows = epoch.opened.facts.after, self.rows_of(epoch.opened)
            assert (after.chain, after.batch) == (chain, batch)
            batches = _split(rows)
            found = [(n, c, digest_batch(part, epoch.opened.table)) for n, c, part in batches]
            breaks.append(find_break(found, after.chain, after.batch))
            batch, chain = (found[-1][0], found[-1][1]) if found else (batch, chain)
        return breaks


def _split(rows: pa.Table) -> list[tuple[int, str, pa.Table]]:
    numbers, chains = np.asarray(rows[BATCH]), rows[CHAIN].to_pylist()
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(rows)] if len(rows) else []
    return [(int(numbers[at]), chains[at], rows.slice(at, until - at)) for at, until in pairwise(starts)]
