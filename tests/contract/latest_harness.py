"""The latest log under the contract."""

from collections.abc import Mapping
from contextlib import suppress
from unittest.mock import patch

from pyspark.sql import SparkSession

from cdc.core.change import Key, Row
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName
from cdc.log.settings import LogSettings
from sinks import latest_state
from sinks.latest import LatestFollower
from sinks.memory import ChangesInMemory
from tests.contract.fed import Lake, keyed
from tests.contract.followers import TABLES, Crash


class LatestHarness:
    def __init__(self, spark: SparkSession, bootstrap: str, prefix: str) -> None:
        self._spark = spark
        self._log = LogSettings(bootstrap=bootstrap, prefix=prefix, partitions=2)
        self._lake = Lake(spark)
        self._follower = self._started()

    def _started(self) -> LatestFollower:
        follower = LatestFollower(self._spark, self._log, self._log.prefix, "latest")
        follower.prepare(TABLES)
        return follower

    def restart(self) -> None:
        self._follower.close()
        self._follower = self._started()

    def load(self, table: Table, rows: Mapping[Key, Row], bookmark: Bookmark) -> None:
        self._follower.load(table, self._lake.copy(table, rows, bookmark), bookmark)

    def apply(self, batch: ChangesInMemory, position: Position) -> None:
        self._follower.apply(self._lake.batch(batch), position)

    def crash_in_apply(self, batch: ChangesInMemory, position: Position) -> None:
        """Die with all of the batch's rows written, and its transaction open."""
        with patch.object(latest_state, "position_record", side_effect=Crash), suppress(Crash):
            self.apply(batch, position)

    def rows(self, table: Table) -> Mapping[Key, Row]:
        return keyed(self._follower.rows(table), table)

    def position(self) -> Position | None:
        return self._follower.position()

    def bookmarks(self) -> Mapping[TableName, Bookmark]:
        return self._follower.bookmarks()
