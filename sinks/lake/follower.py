"""The Delta follower: one Delta table per source table, and a cut after every batch."""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cdc.columns.feed import FeedRows
from cdc.columns.netting.batch import ChangeBatch
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import PreconditionError, TableLostError
from cdc.core.fail_points import reach
from cdc.core.position import BEFORE_LOG, Bookmark, LogStart, Lsn, Offsets, Position
from cdc.core.table import Table, TableName
from cdc.core.table_state import ACTIVE, Followed, Joining
from cdc.sinks.lake import layout
from cdc.sinks.lake.apply.apply import AppliedBatch, BatchApplier
from cdc.sinks.lake.apply.table_dead_letters import TableDeadLetters
from cdc.sinks.lake.apply.tables import LakeTable, LakeTables
from cdc.sinks.lake.delta.write_rate import WriteRate
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.feed.patch import patch_rows
from cdc.sinks.lake.history.histories import Histories
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.maintenance import LakeMaintenance
from cdc.sinks.lake.metadata.cuts import Cut, Cuts
from cdc.sinks.lake.metadata.stopped_tables import StoppedTable
from cdc.sinks.lake.metadata.table import REFRESH_SECONDS
from cdc.sinks.lake.pace import CommitCost
from cdc.sinks.lake.settings import DeltaSettings
from cdc.sinks.lake.table.load import CopiedFiles, load_copy, release_table

CUT = CommitCost(overhead_bytes=6 * 1024, files=2)
"""The cost of a cut: a file of one row, and a commit."""


class DeltaFollower:
    """A `Follower` of Parquet copies and `ChangeBatch`es.

    Its parts answer for themselves: `tables` with their states and stops, `cuts`, `letters` (messages that were not
    applied) and `maintenance`, which may run in another thread. `indexes` is a local folder for the key indexes;
    `recent` receives the written changes.
    """

    def __init__(
        self,
        settings: DeltaSettings,
        lake: Lake,
        indexes: Path,
        recent: ChangeCache | None = None,
        histories: Collection[TableName] = (),
    ) -> None:
        self._lake = lake
        self._cache = recent or ChangeCache()
        # in a folder a look is free; on an object store it is a request
        look_seconds = 0.0 if lake.access is None else REFRESH_SECONDS
        self.cuts = Cuts(lake, look_seconds)
        self.tables = LakeTables(lake, indexes, self.cuts, look_seconds)
        self.histories = Histories(lake, histories, indexes, self.cuts)
        self.letters = TableDeadLetters(lake, self.tables, self.cuts, self.histories)
        self.maintenance = LakeMaintenance(
            [self.tables, self.histories], self.cuts, self.letters, settings.retention_hours
        )
        self._applier = BatchApplier(settings, lake, self.tables, self.letters, self.histories, self._cache)

    def prepare(self, tables: Sequence[Table]) -> None:
        """Refuse tables that are not ours, and create the metadata tables; a copy creates its table itself."""
        for table in tables:
            try:
                layout.open_owned_log(self._lake, table.name)
            except TableLostError:
                # a new copy may replace it
                continue
            except PreconditionError:
                # a listed table was ours; its own checks deal with other writers
                if not self.tables.is_listed(table.name):
                    raise
        self.cuts.prepare()
        self.tables.add([table.name for table in tables])

    def load(
        self,
        table: Table,
        copy: CopiedFiles,
        bookmark: Bookmark,
        *,
        anew: bool = False,
        applied: int | None = None,
    ) -> None:
        """Make the copied files the table's content, in one commit.

        `anew`: under a new table id, even if the old table was not stopped. `applied`: as `load_copy` has it.
        """
        # the readable rest of a lost table may have the id that cuts know
        lost = self.tables.find(table.name) is None
        stopped = {stop.name for stop in self.tables.stops()}
        load_copy(self._lake, table, copy, bookmark, anew=anew or lost or table.name in stopped, applied=applied)
        self.tables.forget([table.name])

    def release(self, names: Sequence[TableName]) -> None:
        """Stop following these tables. Their rows stay in the lake; named again, the tables are copied again."""
        for name in names:
            release_table(self._lake, name)
        self.tables.forget(names)
        # last: a listed table without a bookmark would be copied
        self.tables.remove(names)

    def bookmarks(self) -> dict[TableName, Bookmark]:
        return {name: table.bookmark for name, table in self.tables.all().items()}

    def position(self) -> Position | None:
        """The position of the last cut; None before the first."""
        # another process may have added a cut
        self.cuts.invalidate()
        cut = self.cuts.last()
        return cut.position if cut else None

    def check_tables(self) -> list[StoppedTable]:
        """Stop tables that are neither the last cut's version nor a successor of it, and mark them for a new copy.

        They are gone, damaged, put back to an older state, or changed by other writers.
        """
        last = self.cuts.last()
        if last is None:
            return []
        strayed = self.tables.find_diverged(last)
        return [*self.tables.stop_lost(last), *self.tables.stop(strayed, copy=strayed)]

    def apply(self, batch: ChangeBatch, position: Position) -> AppliedBatch:
        """Apply a batch up to this position, and add its cut; see `Follower`."""
        before = self.cuts.last()
        # the same batch may come twice, from anywhere (`Follower`)
        if before is not None and before.position.covers(position):
            return AppliedBatch()
        # not tables that joined just now: this batch was read without them. Before the first cut there is no position
        # that a table could lack changes of
        tables = self.tables.select(Followed) if before else self.tables.select(*ACTIVE)
        # tables that were lost since the last check
        lost = self.tables.stop_lost(before) if before else []
        # order: tables, cut, signal. A cut names existing versions only. After a kill, some tables are ahead of the
        # last cut, and the next run reaches to the furthest of them: no cut shows one table ahead of others
        ids = {name: table.id for name, table in tables.items()}
        applied = self._applier.apply(batch, tables, position.end_offset)
        # an older copy that somebody has brought back meanwhile has the older one's stop, and would be silent
        others = {name: table for name, table in tables.items() if table.id != ids[name]}
        lost += self.tables.stop_put_back(others, position.lsn)
        reach("lake.cut.before")
        self.cuts.add(self._cut(self.tables.without_stopped(tables), position, batch.ends.last.committed_ms), before)
        reach("lake.cut.after")
        self._cache.announce_cut()
        # of this batch's rows, and of the cut, which begins histories
        notes = [*applied.notes, *self.histories.take_notes()]
        return replace(applied, stopped=[*lost, *applied.stopped], notes=notes, cost=applied.cost + CUT)

    def awaits_cut(self) -> bool:
        """Whether the next cut would have other tables than the last one: some joined or stopped since."""
        last, listed = self.cuts.last(), self.tables.list_names()
        if last is None:
            return True
        there = self.tables.select(Followed)
        named = {str(name) for name in listed} & last.versions.keys()
        return named != {str(name) for name in there} or not all(table.is_in(last) for table in there.values())

    def catch_up(self, batch: ChangeBatch) -> AppliedBatch:
        """Apply a batch from before the position to the joining tables only; adds no cut."""
        return self._applier.apply(batch, self.tables.select(Joining), int(batch.ends.offset[-1]))

    def patch(self, name: TableName, table_id: str, put: FeedRows, since: int, *, anew: bool) -> int:
        """Give keys of a table these rows, as of its version `since`, or none; returns how many had changed since.

        The next cut has it. `anew`: trust no index of keys. Raises PreconditionError for a table that is another one
        than before, or of which keys are held.
        """
        table = self.tables.select(Followed).get(name)
        if table is None or table.id != table_id or put.rows.schema != arrow_schema(table.table):
            raise PreconditionError(f"{name} is another table than before, or is not followed now", "see `cdc status`")
        # replayed later, their messages would revive what they were before the repair
        if self.letters.blocked_keys(table):
            raise PreconditionError(f"keys of {name} are held", "see `cdc dead-letters list`, then repair it")
        return patch_rows(table.writer, put, since, self._lake.app_id, anew=anew)

    def copy_history(self, name: TableName) -> None:
        """Let the history of a table go on with the table's rows, as after a copy; the next cut has it.

        Raises PreconditionError for a table that is not followed.
        """
        table = self.tables.select(Followed).get(name)
        if table is None:
            raise PreconditionError(f"{name} is not followed now", "see `cdc status`")
        self.histories.copy_again(table)

    def write_rate(self) -> WriteRate:
        """Commits, files and bytes per hour of all tables, and of the cuts."""
        tables = (table.writer.log.rate_meter.rate() for table in self.tables.all().values())
        return sum(tables, self.cuts.write_rate())

    def highest_offset(self) -> int:
        """The highest END offset of any table or history; after a crash, beyond the last cut."""
        active = self.tables.select(*ACTIVE)
        last = self.cuts.last()
        self.histories.begin(active, last.committed_ms if last else 0)
        return max([self.histories.highest_offset(), *(table.offset for table in active.values())])

    def first_cut(self, committed_ms: int) -> None:
        """Make the copies themselves the first cut, at the oldest copy's LSN."""
        tables = self.tables.all()
        if self.cuts.last() is None and tables:
            # tables with a later copy join at the first cut that reaches their bookmark
            lsn = min(table.bookmark.lsn for table in tables.values())
            position = Position(BEFORE_LOG, lsn, 0, _topic_ends(tables), LogStart(lsn=lsn))
            self.cuts.add(self._cut(tables, position, committed_ms), None)

    def start_over(self, start: Callable[[int], LogStart], lsn: Lsn, offsets: Offsets, committed_ms: int) -> None:
        """Make the copies the first cut of a new capture at this LSN.

        It continues at these offsets, and at the ends of its tables' topics. `start`: returns the capture's start in
        the log, for the offset of its first END.
        """
        last = self.cuts.last()
        # above every table's offset: after a kill between two commits, one may be ahead of the last cut
        at = max(self.highest_offset(), last.position.end_offset if last else BEFORE_LOG) + 1
        tables = self.tables.select(*ACTIVE)
        position = Position(at, lsn, 0, {**offsets, **_topic_ends(tables)}, start(at + 1))
        self.cuts.add(self._cut(tables, position, committed_ms), last)

    def close(self) -> None:
        """Save the indexes for the next process."""
        for _, writer in [*self.tables.list_open(), *self.histories.list_open()]:
            writer.save_index(everything=True)

    def _cut(self, tables: Mapping[TableName, LakeTable], position: Position, committed_ms: int) -> Cut:
        # a copy ahead of the position joins once a cut reaches it
        there = {name: table for name, table in tables.items() if table.bookmark.is_reached_by(position.lsn)}
        self.histories.begin(there, committed_ms)
        snapshots = {name: table.writer.snapshot for name, table in there.items()}
        reached = {str(name): each for name, each in {**snapshots, **self.histories.snapshots(there)}.items()}
        versions = {name: snapshot.version for name, snapshot in reached.items()}
        ids = {name: snapshot.table_id for name, snapshot in reached.items()}
        commits = {name: snapshot.commit_id for name, snapshot in reached.items() if snapshot.commit_id}
        return Cut(replace(position, cut=uuid.uuid4().hex), committed_ms, versions, ids, commits)


def _topic_ends(tables: Mapping[TableName, LakeTable]) -> Offsets:
    """Where the log goes on from these tables' copies."""
    return {topic: ends for table in tables.values() for topic, ends in table.bookmark.topic_ends.items()}
