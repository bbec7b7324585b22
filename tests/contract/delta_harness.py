"""The Delta follower under the contract: model changes become columns, rows come back from the tables."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from cdc.columns.batch import DecodedBatch, TableChanges
from cdc.columns.ends import of_values
from cdc.core.change import Key, Row
from cdc.core.copied_file import CopiedFile
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName
from sinks.lake.cuts import Cuts
from sinks.lake.follower import DeltaFollower
from sinks.lake.layout import Lake
from sinks.lake.settings import DeltaSettings
from sinks.memory import ChangesInMemory
from tests.columns.model_changes import as_columns
from tests.contract.followers import TABLES, Crash


class DeltaHarness:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._lake = Lake(str(folder), "contract", 1)
        self.restart()

    def restart(self) -> None:
        settings = DeltaSettings(kind="delta", path=self._lake.path)
        self._follower = DeltaFollower(settings, self._lake, Path(self._lake.path, "index"))
        self._follower.prepare(TABLES)

    def load(self, table: Table, rows: Mapping[Key, Row], bookmark: Bookmark) -> None:
        folder = Path(self._lake.folder(table.name))
        folder.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([("id", pa.int32()), ("small", pa.int32()), ("big", pa.string())])
        file = folder / f"copy-{bookmark.lsn}-{len(rows)}.parquet"
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows.values()], schema), file)
        self._follower.load(table, [CopiedFile(file.name, file.stat().st_size, len(rows))], bookmark)

    def apply(self, batch: ChangesInMemory, position: Position) -> None:
        self._follower.apply(batch_of(batch), position)

    def crash_in_apply(self, batch: ChangesInMemory, position: Position) -> None:
        with patch.object(Cuts, "add", side_effect=Crash), suppress(Crash):
            self.apply(batch, position)

    def rows(self, table: Table) -> Mapping[Key, Row]:
        found = self._spark.read.format("delta").load(self._lake.folder(table.name)).collect()
        rows: dict[Key, Row] = {tuple(row[k] for k in table.key): row.asDict() for row in found}
        assert len(rows) == len(found), "a key is there twice"
        return rows

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
    return DecodedBatch(of_values(batch.ends), found)
