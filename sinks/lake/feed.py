"""The feed of the followers behind the lake: cut by cut, Delta's change feed from version to version."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from cdc.columns.feed import FeedBatch, copied, newest, required
from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName
from sinks.lake import layout
from sinks.lake.cuts import Cut, Cuts
from sinks.lake.layout import Lake


class LakeFeed:
    """Reads one lake for one follower behind it."""

    def __init__(self, spark: SparkSession | None, lake: Lake) -> None:
        self._spark = spark
        self._lake = lake
        self._cuts = Cuts(lake)

    @property
    def cuts_folder(self) -> str:
        return self._cuts.folder

    def last(self) -> Cut:
        """The newest cut; raises HistoryLostError when the lake has none."""
        cut = self._cuts.last()
        if cut is None:
            raise HistoryLostError("the lake has no copy to follow", "run `cdc bootstrap` first")
        return cut

    def at(self, position: Position) -> Cut:
        """The cut of a follower's position; raises HistoryLostError when this lake never had it."""
        cut = self._cuts.at(position.end_offset)
        if cut is None or cut.position.lsn != position.lsn:
            raise HistoryLostError(
                f"the lake {self._lake.path} has no cut at offset {position.end_offset}",
                "the follower followed another lake: bootstrap under another pipeline.name",
            )
        return cut

    def tables(self, cut: Cut) -> list[tuple[Table, Bookmark]]:
        """The tables that take part in a cut, with the bookmarks of their copies."""
        return [self._table(TableName.parse(name)) for name in cut.versions]

    def _table(self, name: TableName) -> tuple[Table, Bookmark]:
        delta = layout.owned(self._lake, name)
        table = layout.described(delta) if delta else None
        bookmark = layout.bookmark(self._lake, delta) if delta else None
        if table is None or bookmark is None:
            raise HistoryLostError(f"{self._lake.folder(name)} is gone", "run `cdc bootstrap` again")
        return table, bookmark

    def rows(self, table: Table) -> DataFrame:
        """A table of the lake as it stands at the newest cut."""
        versions = self.last().versions
        if str(table.name) not in versions:
            raise PreconditionError(f"{table.name} is in no cut of the lake yet", "run `cdc bootstrap`, then follow")
        frame = required(self._spark).read.format("delta").option("versionAsOf", versions[str(table.name)])
        return frame.load(self._lake.folder(table.name))

    def copy(self, table: Table, cut: Cut) -> DataFrame:
        """A table's rows at a cut, as a `Feed` that puts all of them."""
        rows = required(self._spark).read.format("delta").option("versionAsOf", cut.versions[str(table.name)])
        return copied(rows.load(self._lake.folder(table.name)), table)

    def row_count(self, name: TableName, cut: Cut) -> int:
        """A table's rows at a cut."""
        return layout.row_count(self._lake.folder(name), cut.versions[str(name)])

    def batch(self, tables: Sequence[Table], since: Cut, until: Cut) -> FeedBatch:
        """What changed in these tables after `since` up to `until`; tables that did not change are left out."""
        found: dict[TableName, DataFrame] = {}
        for table in tables:
            first, last = since.versions.get(str(table.name)), until.versions.get(str(table.name))
            if first is not None and last is not None and first < last:
                found[table.name] = self._changed(table, first + 1, last)
        return FeedBatch(found)

    def _changed(self, table: Table, first: int, last: int) -> DataFrame:
        feed = required(self._spark).read.format("delta").option("readChangeFeed", "true")
        versions = feed.option("startingVersion", first).option("endingVersion", last)
        return newest(versions.load(self._lake.folder(table.name)), table)
