"""The Delta follower under the contract: model changes become decoded frames, rows come back from the tables."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from cdc.columns.batch import ChangeBatch, TableChanges
from cdc.columns.names import Changes
from cdc.columns.spark_types import key_type, row_type
from cdc.core.change import UNCHANGED, Change, Delete, Insert, Key, Place, Row, Truncate, Update
from cdc.core.copied_file import CopiedFile
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName
from sinks.lake.cuts import Cuts
from sinks.lake.follower import DeltaFollower
from sinks.lake.layout import Lake
from sinks.lake.settings import DeltaSettings
from sinks.memory import ChangesInMemory
from tests.contract.followers import TABLES, Crash


def decoded_schema(table: Table) -> T.StructType:
    """What `decode` gives, without the bytes that only refusals need."""
    return T.StructType(
        [
            T.StructField(Changes.TX_ID, T.LongType()),
            T.StructField(Changes.TOTAL_ORDER, T.LongType()),
            T.StructField(Changes.OP, T.StringType()),
            T.StructField(Changes.KEY, key_type(table)),
            T.StructField(Changes.ROW, row_type(table)),
            T.StructField(Changes.UNSENT, T.ArrayType(T.StringType())),
            T.StructField(Changes.MOVED_FROM, key_type(table)),
            T.StructField(Changes.REFUSAL, T.StringType()),
        ]
    )


def as_decoded(change: Change, tx_id: int) -> tuple[object, ...]:
    order = (tx_id, change.place.total_order)
    match change:
        case Insert(key=key, row=row, moved_from=old):
            return (*order, "c", key, *_sent(row), old, None)
        case Update(key=key, row=row):
            return (*order, "u", key, *_sent(row), None, None)
        case Delete(key=key):
            return (*order, "d", key, None, None, None, None)
        case Truncate():
            return (*order, "t", None, None, None, None, None)


def _sent(row: Mapping[str, object]) -> tuple[tuple[object, ...], list[str]]:
    values = tuple(None if value is UNCHANGED else value for value in row.values())
    return values, [name for name, value in row.items() if value is UNCHANGED]


class DeltaHarness:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._lake = Lake(str(folder), "contract", 1)
        self.restart()

    def restart(self) -> None:
        self._follower = DeltaFollower(self._spark, DeltaSettings(kind="delta", path=self._lake.path), self._lake)
        self._follower.prepare(TABLES)

    def load(self, table: Table, rows: Mapping[Key, Row], bookmark: Bookmark) -> None:
        folder = Path(self._lake.folder(table.name))
        folder.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([("id", pa.int32()), ("small", pa.int32()), ("big", pa.string())])
        file = folder / f"copy-{bookmark.lsn}-{len(rows)}.parquet"
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows.values()], schema), file)
        self._follower.load(table, [CopiedFile(file.name, file.stat().st_size, len(rows))], bookmark)

    def apply(self, batch: ChangesInMemory, position: Position) -> None:
        self._follower.apply(self._frames(batch), position)

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

    def _frames(self, batch: ChangesInMemory) -> ChangeBatch:
        ids = {end.offset: end.tx_id for end in batch.ends}
        tables = {}
        for table in TABLES:
            mine = [change for change in batch.changes if change.table == table.name]
            if mine:
                decoded = self._spark.createDataFrame(
                    [as_decoded(change, ids[change.place.rank]) for change in mine], decoded_schema(table)
                )
                tables[table.name] = TableChanges(decoded, _truncates(mine))
        return ChangeBatch(batch.ends, tables)


def _truncates(changes: list[Change]) -> tuple[Place, ...]:
    return tuple(change.place for change in changes if isinstance(change, Truncate))
