"""The feed of the followers behind the lake: tables at a cut, and their changes from cut to cut."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.feed import FeedRows, merge_versions
from cdc.columns.spark_tasks import require_spark
from cdc.core.errors import HistoryLostError, PreconditionError, TableLostError, UnreachableError
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.actions import commit_id
from cdc.sinks.lake.delta.log import DeltaLog, LogDamagedError
from cdc.sinks.lake.delta.scan import LakeCopy, Share, live_rows
from cdc.sinks.lake.delta.snapshot import Snapshot
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.feed.commit_changes import CommitChanges, LazyParts, fold_versions, read_whole
from cdc.sinks.lake.feed.frames import open_frame
from cdc.sinks.lake.feed.small_tables import read_small
from cdc.sinks.lake.feed.standing import stand_at
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cut, Cuts

MERGED_BYTES: Final = 8 * 2**20
"""Of the files with the changes of several versions that are merged in memory, where they take twenty times as much."""


@dataclass(frozen=True, slots=True)
class _TableVersion:
    """Which version of which table a cut names."""

    version: int
    table: str
    commit: str | None

    @classmethod
    def of(cls, name: TableName, cut: Cut) -> "_TableVersion":
        return cls(cut.versions[str(name)], cut.ids[str(name)], cut.commits.get(str(name)))


class LakeFeed:
    """Reads one lake for one follower: the tables that `holds` selects, as far as they fit into it.

    `with_views`: by the cuts that have the views, too.
    """

    def __init__(
        self,
        spark: SparkSession | None,
        lake: Lake,
        recent: ChangeCache | None = None,
        holds: Callable[[TableName], bool] = lambda _: True,
        fits: Callable[[Table], bool] = lambda _: True,
        *,
        with_views: bool = False,
    ) -> None:
        self._spark = spark
        self.has_table = holds
        self._fits = fits
        self._admitted: set[TableName] = set()
        self._lake = lake
        self._cache = recent or ChangeCache()
        self._with_views = with_views
        self._cuts = Cuts(lake.of_views if with_views else lake)
        # kept open: the next look reads only the commits since
        self._logs: dict[str, DeltaLog] = {}
        # as of the last cut: most of a thousand tables are the same in the next one, and each look is a request
        self._described: dict[TableName, tuple[_TableVersion, tuple[Table, Bookmark] | None]] = {}

    def last_cut(self) -> Cut:
        """The newest cut; raises HistoryLostError when the lake has none."""
        cut = self._cuts.last()
        if cut is None and self._with_views:
            raise UnreachableError("no view was filled yet", "run `cdc follow`: it fills them")
        if cut is None:
            raise HistoryLostError("the lake has no copy to follow", "run `cdc bootstrap` first")
        return cut

    def require_cut(self, position: Position) -> Cut:
        """The cut at a follower's position; raises HistoryLostError when the lake has none there."""
        cut = self.find_cut(position)
        if cut is None:
            raise self._no_cut_error(position)
        return cut

    def _no_cut_error(self, position: Position) -> HistoryLostError:
        last = self.last_cut().position.end_offset
        ahead = f", its newest is at {last}" if position.end_offset > last else " any more"
        if self._with_views and find_cut_at(Cuts(self._lake), position) is not None:
            return HistoryLostError(
                f"the follower holds views from now on, and no cut with views is at its offset {position.end_offset}",
                "`cdc bootstrap` fills it anew",
            )
        return HistoryLostError(
            f"the lake {self._lake.path} has no cut at offset {position.end_offset}{ahead}: the follower followed"
            " another lake, or this one was put back to an older state",
            "`cdc bootstrap` fills it anew from this one",
        )

    def find_cut(self, position: Position) -> Cut | None:
        """The cut at a follower's position. None when the follower followed another lake, or this one long ago or
        before it was put back."""
        return find_cut_at(self._cuts, position)

    def cuts_after(self, than: Cut, most: int) -> list[Cut]:
        """The first `most` cuts after this one, in order; raises HistoryLostError when it is no longer in this lake."""
        cuts = self._cuts.list_after(than, most)
        # the lake was put back and continued: its cuts do not follow ours
        if cuts and not cuts[0].is_next_to(than):
            raise self._no_cut_error(than.position)
        return cuts

    def tables(self, cut: Cut) -> list[tuple[Table, Bookmark]]:
        """The follower's tables in a cut, with their copies' bookmarks."""
        tables = (self._table(name, cut) for name in map(TableName.parse, cut.versions) if self.has_table(name))
        return [table for table in tables if table and self._is_own(table[0])]

    def split_readable(
        self, cut: Cut, but: Collection[TableName] = ()
    ) -> tuple[list[tuple[Table, Bookmark]], list[TableName]]:
        """Like `tables`, without those in `but`; also returns the names of tables that cannot be read at this cut."""
        readable, unread = list[tuple[Table, Bookmark]](), list[TableName]()
        for name in map(TableName.parse, cut.versions):
            if self.has_table(name) and name not in but:
                try:
                    # not as it is known: it may be gone since
                    table = self._describe(name, cut)
                    readable += [table] if table and self._is_own(table[0]) else []
                except HistoryLostError:
                    unread.append(name)
        return readable, unread

    def _is_own(self, table: Table) -> bool:
        return table.name in self._admitted or self._fits(table)

    def admit(self, names: Iterable[TableName]) -> None:
        """Give the follower these tables even if they do not fit: it has them, and reports what it cannot hold."""
        self._admitted |= set(names)

    def _table(self, name: TableName, cut: Cut) -> tuple[Table, Bookmark] | None:
        """The table as described at the cut; None when it is no longer followed."""
        at, known = _TableVersion.of(name, cut), self._described.get(name)
        if known is None or known[0] != at or at.commit is None:
            known = self._described[name] = at, self._describe(name, cut)
        return known[1]

    def _describe(self, name: TableName, cut: Cut) -> tuple[Table, Bookmark] | None:
        log = self._log(name)
        if log is None:
            raise TableLostError(name, "it is gone from the lake")
        snapshot, bookmark = log.snapshot, layout.bookmark(self._lake, log.snapshot)
        version = cut.versions[str(name)]
        if version > snapshot.version:
            raise TableLostError(name, f"version {version} of a cut is gone from the lake")
        if bookmark and version < snapshot.metadata_version:
            # a later copy may have other columns: describe the rows of this cut by its own metadata
            snapshot = self._snapshot(name, cut)
            bookmark = layout.bookmark(self._lake, snapshot)
        table = layout.table_of(snapshot)
        return (table, bookmark) if table and bookmark else None

    def _log(self, name: TableName) -> DeltaLog | None:
        """The table's log, reopened when another table took its place; raises TableLostError."""
        known = self._logs.get(str(name))
        if known is not None:
            try:
                known.refresh()
            except LogDamagedError as error:
                raise TableLostError(name, error.what) from error
            return known
        log = layout.open_owned_log(self._lake, name)
        if log is not None:
            self._logs[str(name)] = log
        return log

    def forget(self) -> None:
        """Read everything again: a table may have been replaced."""
        self._logs = {}
        self._described = {}

    def stand(self, name: TableName) -> Cut:
        """The newest cut, with the table as it stands there now; raises PreconditionError when the cut lacks it."""
        cut = self.last_cut()
        if str(name) not in cut.versions:
            raise PreconditionError(f"{name} is in no cut of the lake yet", "run `cdc bootstrap`, then follow")
        log = self._log(name)
        return cut if log is None else stand_at(self._lake, log, name, cut)

    def rows(self, table: Table) -> DataFrame:
        """The table as it stands at the newest cut, as a Spark frame."""
        version = self.stand(table.name).versions[str(table.name)]
        return open_frame(require_spark(self._spark), self._lake, table.name, version)

    def copy(self, table: Table, cut: Cut) -> LakeCopy:
        """The table's rows at a cut; admits the table."""
        self.admit([table.name])
        files = [*self._snapshot(table.name, cut).files.values()]
        return LakeCopy(require_spark(self._spark), table, self._lake.table_storage(table.name), files)

    def read(self, table: Table, cut: Cut) -> Iterator[pa.Table]:
        """The table's rows at a cut, in this process, in parts of its Arrow schema, as other readers of Delta see them.

        Where only Spark could read them so, by our own reader.
        """
        files = [*self._snapshot(table.name, cut).files.values()]
        rows = read_small(self._lake, table, cut.versions[str(table.name)], inf)
        own = (part for file in files for part in live_rows(self._lake.table_storage(table.name), Share(file), table))
        return own if rows is None else rows

    def row_count(self, name: TableName, cut: Cut) -> int:
        """The table's number of rows at a cut."""
        return self._snapshot(name, cut).live_rows

    def _snapshot(self, name: TableName, cut: Cut) -> Snapshot:
        log = layout.open_owned_log(self._lake, name, cut.versions[str(name)])
        if log is None:
            raise TableLostError(name, "it is gone from the lake")
        snapshot = log.snapshot
        if not cut.has_version(str(name), snapshot):
            raise TableLostError(name, f"version {snapshot.version} of a cut is another one in the lake now")
        return snapshot

    def changes(self, table: Table, since: Cut, until: Cut) -> Iterable[FeedRows]:
        """The changes of a table after `since` up to `until`; none when one of the cuts lacks it.

        Raises HistoryLostError when the lake no longer has them, also while they are read.
        """
        # no bytes: compaction, or a commit of metadata only
        pieces = [commit for commit in self._list_commits(table, since, until) if commit.change_bytes]
        # read lazily; what is large is read a part at a time
        return LazyParts(partial(self._iterate_changes, table, pieces)) if pieces else ()

    def changed_keys(self, table: Table, since: Cut, until: Cut) -> Iterator[pa.Table]:
        """What identifies the rows that have changed, in parts, some perhaps more than once; raises as `changes`."""
        for commit in self._list_commits(table, since, until):
            if commit.change_bytes:
                yield from commit.changed_keys()

    def _list_commits(self, table: Table, since: Cut, until: Cut) -> Sequence[CommitChanges]:
        first, last = since.versions.get(str(table.name)), until.versions.get(str(table.name))
        if first is None or last is None or first >= last:
            return ()
        log = self._log(table.name)
        if log is None:
            raise TableLostError(table.name, "it is gone from the lake")
        versions = [self._read_commit(table, log, version) for version in range(first + 1, last + 1)]
        named = until.commits.get(str(table.name))
        # cached versions need no check: this process committed them
        if named and versions[-1].actions and commit_id(versions[-1].actions) != named:
            raise TableLostError(table.name, f"version {last} of a cut is another one in the lake now")
        return versions

    def _iterate_changes(self, table: Table, pieces: Sequence[CommitChanges]) -> Iterator[FeedRows]:
        """Yield the changes of versions in parts with disjoint keys: one version's own, or the fold of several."""
        if len(pieces) == 1:
            yield from pieces[0].parts()
        elif sum(piece.change_bytes for piece in pieces) > MERGED_BYTES:
            yield from fold_versions(pieces, table)
        else:
            # one part: each costs a follower a request
            yield merge_versions([read_whole(piece, table) for piece in pieces], table)

    def change_bytes(self, table: Table, since: Cut, until: Cut) -> int:
        """Size of the files with a table's changes between two cuts, whether they are cached or not."""
        first, last = since.versions.get(str(table.name)), until.versions.get(str(table.name))
        if first is None or last is None or first >= last:
            return 0
        log = self._log(table.name)
        if log is None:
            return 0
        return sum(self._read_commit(table, log, version).change_bytes for version in range(first + 1, last + 1))

    def _read_commit(self, table: Table, log: DeltaLog, version: int) -> CommitChanges:
        known = self._cache.get(log.snapshot.table_id, version)
        # cached changes need no request to the log
        actions = [] if known else log.actions(version)
        return CommitChanges(table, self._lake.table_storage(table.name), actions, version, known)


def find_cut_at(cuts: Cuts, position: Position) -> Cut | None:
    """The cut of exactly this position, None for another one at its offset."""
    cut = cuts.find(position.end_offset)
    if cut is None or cut.position.lsn != position.lsn:
        return None
    return cut if cut.position.cut == position.cut else None
