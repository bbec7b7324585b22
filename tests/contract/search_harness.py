"""The search follower under the contract."""

from collections.abc import Mapping
from contextlib import suppress
from unittest.mock import patch

from pyspark.sql import SparkSession

from cdc.core.change import Key, Row
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName
from sinks.memory import ChangesInMemory
from sinks.search import SearchFollower, SearchSettings
from tests.contract.fed import Lake, keyed
from tests.contract.followers import TABLES, Crash


class SearchHarness:
    def __init__(self, spark: SparkSession, url: str, pipeline: str) -> None:
        self._spark = spark
        self._settings = SearchSettings(kind="search", url=url, bulk_documents=3)
        self._pipeline = pipeline
        self._lake = Lake(spark)
        self.restart()

    def restart(self) -> None:
        self._follower = SearchFollower(self._spark, self._settings, self._pipeline, "search")
        self._follower.prepare(TABLES)

    def load(self, table: Table, rows: Mapping[Key, Row], bookmark: Bookmark) -> None:
        self._follower.load(table, self._lake.copy(table, rows, bookmark), bookmark)

    def apply(self, batch: ChangesInMemory, position: Position) -> None:
        self._follower.apply(self._lake.batch(batch), position)

    def crash_in_apply(self, batch: ChangesInMemory, position: Position) -> None:
        with patch.object(SearchFollower, "_store", side_effect=Crash), suppress(Crash):
            self.apply(batch, position)

    def rows(self, table: Table) -> Mapping[Key, Row]:
        return keyed(self._follower.rows(table), table)

    def position(self) -> Position | None:
        return self._follower.position()

    def bookmarks(self) -> Mapping[TableName, Bookmark]:
        return self._follower.bookmarks()
