"""The Delta follower under the contract: model changes become columns, rows come back from the tables."""

from collections.abc import Mapping
from contextlib import suppress
from typing import cast
from unittest.mock import patch

import numpy as np

from cdc.columns.netting.batch import DecodedBatch, TableChanges
from cdc.columns.netting.ends import to_columns
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName
from cdc.core.table_state import Joining
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.metadata.cuts import Cuts
from cdc.sinks.lake.settings import DeltaSettings
from tests.contract.followers import TABLES, Crash
from tests.contract.memory import ChangesInMemory
from tests.support.lake.places import PlacedLake
from tests.support.lake.tables import read_by_delta_rs, write_copy
from tests.support.model import Key, Row
from tests.support.model_changes import as_columns


class DeltaHarness:
    def __init__(self, lake: PlacedLake) -> None:
        self._lake = lake
        self.restart()

    def restart(self) -> None:
        settings = DeltaSettings(kind="delta", path=self._lake.path)
        self._follower = DeltaFollower(settings, self._lake, self._lake.indexes / "index")
        self._follower.prepare(TABLES)

    def load(self, table: Table, rows: Mapping[Key, Row], bookmark: Bookmark) -> None:
        self._follower.load(table, [write_copy(self._lake, table, rows.values())], bookmark)

    def apply(self, batch: ChangesInMemory, position: Position) -> None:
        # as the stream does before it reads: a copy that is ahead of the cuts is in none of them yet
        self._follower.tables.adopt(self._follower.tables.select(Joining))
        self._follower.apply(batch_of(batch), position)

    def crash_in_apply(self, batch: ChangesInMemory, position: Position) -> None:
        with patch.object(Cuts, "add", side_effect=Crash), suppress(Crash):
            self.apply(batch, position)

    def rows(self, table: Table) -> Mapping[Key, Row]:
        found = read_by_delta_rs(self._lake, table=table)
        return cast("Mapping[Key, Row]", {(id,): row for id, row in found.items()})

    def position(self) -> Position | None:
        return self._follower.position()

    def bookmarks(self) -> Mapping[TableName, Bookmark]:
        return self._follower.bookmarks()


def batch_of(batch: ChangesInMemory) -> DecodedBatch:
    """A batch as reading it from the log would give it."""
    ids = {end.offset: end.tx_id for end in batch.ends}
    found = {}
    for table in TABLES:
        mine = [change for change in batch.changes if change.table == table.name]
        if mine:
            ranks = np.array([change.place.rank for change in mine], np.int64)
            found[table.name] = TableChanges(as_columns(table, mine, ids), ranks)
    return DecodedBatch(to_columns(batch.ends), found)
