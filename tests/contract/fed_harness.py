"""What the followers behind the lake have in common under the contract: each batch is a feed of a lake in memory."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from cdc.columns.feed import FedFollower
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName
from tests.contract.fed import Lake, keyed
from tests.contract.memory import ChangesInMemory
from tests.support.model import Key, Row


class FedHarness:
    """A follower behind a lake; a kind of its own adds how it starts and where it dies."""

    _follower: FedFollower

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._lake = Lake(spark)

    def load(self, table: Table, rows: Mapping[Key, Row], bookmark: Bookmark) -> None:
        self._follower.load(table, self._lake.copy(table, rows, bookmark), bookmark)

    def apply(self, batch: ChangesInMemory, position: Position) -> None:
        self._follower.apply(self._lake.batch(batch), position)

    def rows(self, table: Table) -> Mapping[Key, Row]:
        return keyed(self._follower.rows(table), table)

    def position(self) -> Position | None:
        return self._follower.position()

    def bookmarks(self) -> Mapping[TableName, Bookmark]:
        return self._follower.bookmarks()
