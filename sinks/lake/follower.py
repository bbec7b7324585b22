"""The Delta follower: one Delta table per source table, and a cut after every batch."""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.batch import ChangeBatch
from cdc.columns.netting.transactions import Ends
from cdc.core.errors import PreconditionError, TableLostError
from cdc.core.position import BEFORE_LOG, Bookmark, LogStart, Lsn, Offsets, Position
from cdc.core.table import Table, TableName
from sinks.lake import layout
from sinks.lake.apply.apply import ApplyReport, BatchApplier
from sinks.lake.apply.replay import ReplayPlan
from sinks.lake.apply.spark_batch import MissingChanges
from sinks.lake.apply.tables import FollowedTable, FollowedTables
from sinks.lake.delta.write_rate import WriteRate
from sinks.lake.feed.change_cache import ChangeCache
from sinks.lake.layout import Lake
from sinks.lake.maintenance import LakeMaintenance
from sinks.lake.metadata.cuts import Cut, Cuts
from sinks.lake.metadata.dead_letters import DeadLetter
from sinks.lake.metadata.stopped_tables import StoppedTable
from sinks.lake.metadata.table import REFRESH_SECONDS
from sinks.lake.pace import CommitCost
from sinks.lake.settings import DeltaSettings
from sinks.lake.table.load import CopiedFiles, load_copy, release_table

CUT = CommitCost(overhead_bytes=6 * 1024, files=2)
"""The cost of a cut: a file of one row, and a commit."""


class DeltaFollower:
    """A `Follower` of Parquet copies and `ChangeBatch`es.

    `indexes` is a local folder for the key indexes; `recent` receives the written changes.
    """

    def __init__(self, settings: DeltaSettings, lake: Lake, indexes: Path, recent: ChangeCache | None = None) -> None:
        self._settings = settings
        self._lake = lake
        self._cache = recent or ChangeCache()
        # in a folder a look is free; on an object store it is a request
        look_seconds = 0.0 if lake.access is None else REFRESH_SECONDS
        self._cuts = Cuts(lake, look_seconds)
        self._tables = FollowedTables(lake, indexes, look_seconds)
        self._applier = BatchApplier(settings, lake, self._tables, self._cache, self.stop)
        self._lost: list[StoppedTable] = []
        # by Delta table id: a new copy has to be adopted again
        self._adopted: set[str] = set()
        self._maintenance = LakeMaintenance(self._tables, self._cuts, self._applier, settings.history_hours)

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
                if not self._tables.is_listed(table.name):
                    raise
        self._cuts.prepare()
        self._tables.add([table.name for table in tables])

    def load(self, table: Table, copy: CopiedFiles, bookmark: Bookmark, *, anew: bool = False) -> None:
        """Make the copied files the table's content, in one commit.

        `anew`: under a new table id, even if the old table was not stopped.
        """
        # the readable rest of a lost table may have the id that cuts know
        lost = self._tables.find(table.name) is None
        stopped = {stop.name for stop in self.stops()}
        load_copy(self._lake, table, copy, bookmark, anew=anew or lost or table.name in stopped)
        self._tables.forget([table.name])

    def release(self, names: Sequence[TableName]) -> None:
        """Stop following these tables. Their rows stay in the lake; named again, the tables are copied again."""
        for name in names:
            release_table(self._lake, name)
        self._tables.forget(names)
        # last: a listed table without a bookmark would be copied
        self._tables.remove(names)

    def bookmarks(self) -> dict[TableName, Bookmark]:
        """The bookmarks of all tables with a copy."""
        return {name: table.bookmark for name, table in self._tables.all().items()}

    def tables(self) -> list[Table]:
        """The loaded tables that are not stopped, as of their copies."""
        return [table.table for table in self._tables.active().values()]

    def all_tables(self) -> list[Table]:
        """The loaded tables, stopped ones included, as of their copies."""
        return [table.table for table in self._tables.all().values()]

    def tables_in_cuts(self) -> list[Table]:
        """The tables that the next batch is applied to; others must be adopted first."""
        return [table.table for table in self._tables_in(self._cuts.last()).values()]

    def stops(self) -> list[StoppedTable]:
        """The stopped tables."""
        return self._tables.list_stops()

    def stop(self, reasons: Mapping[TableName, str], copy: Collection[TableName] = ()) -> list[StoppedTable]:
        """Stop these tables; `copy`: those that `cdc follow` copies again. Returns the new stops."""
        last = self._cuts.last()
        return self._tables.stop(reasons, last.position.lsn if last else Lsn(0), copy)

    def check_tables(self) -> list[StoppedTable]:
        """Stop tables that are neither the last cut's version nor a successor of it, and mark them for a new copy.

        They are gone, damaged, put back to an older state, or changed by other writers.
        """
        last = self._cuts.last()
        if last is None:
            return []
        strayed = self._tables.find_diverged(last)
        return [*self._tables.stop_lost(last), *self.stop(strayed, copy=strayed)]

    def find_outdated(self, lsn: Lsn) -> list[Table]:
        """The tables without the schema change at this LSN, stopped ones included."""
        return [s.table for s in self._tables.all().values() if not s.bookmark.covers(lsn) and lsn > s.schema_lsn]

    def add_columns(self, table: Table, lsn: Lsn) -> None:
        """Give a table the new columns of a schema change at this LSN; existing rows lack them."""
        self._tables.active()[table.name].writer.add_columns(table, lsn)

    def reload_tables(self, names: Iterable[TableName]) -> None:
        """Reopen these tables: they were copied again."""
        self._tables.forget(names)

    def count_blocked(self) -> dict[TableName, tuple[int, int]]:
        """Per table with blocked keys: number of keys, number of messages."""
        return self._applier.count_blocked()

    def take_report(self) -> ApplyReport:
        """The report of all batches since the last call: stopped tables and blocked keys."""
        report, lost, self._lost = self._applier.take_report(), self._lost, []
        return replace(report, stopped=[*lost, *report.stopped])

    def dead_letters(self) -> list[DeadLetter]:
        """The dead letters of the present tables; letters of former copies are void."""
        return self._applier.letters()

    def replay_letters(self, name: TableName, decoder: Decoder, given_up: Collection[bytes] = ()) -> ReplayPlan:
        """Apply a table's dead letters at the last cut, as `BatchApplier.replay_letters` does.

        Raises PreconditionError when the last cut lacks the table.
        """
        last = self._cuts.last()
        if last is None or not self._tables.all()[name].is_in(last):
            # the changes between its copy and the cut would count as applied
            raise PreconditionError(f"{name} is in no cut of the lake yet", "run `cdc follow` first")
        return self._applier.replay_letters(name, last.position.end_offset, decoder, given_up)

    def drop_letters(self, letters: Collection[DeadLetter]) -> None:
        """Delete letters without applying them."""
        self._applier.drop_letters(letters)

    def position(self) -> Position | None:
        """The position of the last cut; None before the first."""
        # another process may have added a cut
        self._cuts.invalidate()
        cut = self._cuts.last()
        return cut.position if cut else None

    def last_applied(self, run: Ends) -> dict[TableName, int]:
        """Per active table, the offset of the last of these ENDs that it has, from its copy or a batch."""
        return {name: table.last_applied(run) for name, table in self._tables.active().items()}

    def find_missing(self, run: Ends, topics: Mapping[TableName, str]) -> list[MissingChanges]:
        """The changes of a run that the tables of these topics lack; tables without any are left out."""
        going = {name: s for name, s in self._tables.active().items() if name in topics}
        parts = [(s, s.last_applied(run), topics[name]) for name, s in going.items()]
        return [
            MissingChanges(s.table, topic, count, after, s.writer.storage, self._applier.has_blocked_keys(s))
            for s, after, topic in parts
            if (count := run.where(run.offset > after).counts([str(s.table.name)]).get(str(s.table.name)))
        ]

    def highest_offset(self) -> int:
        """The highest END offset of any table; after a crash, beyond the last cut."""
        return max((s.offset for s in self._tables.active().values()), default=BEFORE_LOG)

    def apply(self, batch: ChangeBatch, position: Position) -> None:
        """Apply a batch up to this position, and add its cut; see `Follower`."""
        before = self._cuts.last()
        # the same batch may come twice, from anywhere (`Follower`)
        if before is not None and position.end_offset <= before.position.end_offset:
            return
        tables = self._tables_in(before)
        # tables that were lost since the last check
        self._lost += self._tables.stop_lost(before) if before else []
        # order: tables, cut, signal. A cut names existing versions only. After a kill, some tables are ahead of the
        # last cut, and the next run reaches to `highest_offset`: no cut shows one table ahead of others
        self._applier.apply(batch, tables, position.end_offset)
        # without tables that this batch stopped
        going = self._tables.active(tables)
        self._cuts.add(self._cut(going, position, batch.ends.last.committed_ms), before)
        self._cache.announce_cut()

    def cost(self) -> CommitCost:
        """The cost of the last batch, its cut included."""
        return self._applier.cost + CUT

    def write_rate(self) -> WriteRate:
        """Commits, files and bytes per hour of all tables, and of the cuts."""
        tables = (table.writer.log.rate_meter.rate() for table in self._tables.all().values())
        return sum(tables, self._cuts.write_rate())

    def first_cut(self, committed_ms: int) -> None:
        """Make the copies themselves the first cut, at the oldest copy's LSN."""
        tables = self._tables.all()
        if self._cuts.last() is None and tables:
            # tables with a later copy join at the first cut that reaches their bookmark
            lsn = min(table.bookmark.lsn for table in tables.values())
            position = Position(BEFORE_LOG, lsn, 0, log_start=LogStart(lsn=lsn))
            self._cuts.add(self._cut(tables, position, committed_ms), None)

    def begin_capture(self) -> int:
        """Start a new capture: nobody continues from the last cut. Returns the capture's number."""
        return self._cuts.begin_capture()

    def check_capture(self) -> None:
        """Raise HistoryLostError when a new capture was begun and not finished."""
        self._cuts.check_capture()

    def start_over(self, start: Callable[[int], LogStart], lsn: Lsn, offsets: Offsets, committed_ms: int) -> None:
        """Make the copies the first cut of a new capture at this LSN, which continues at these offsets.

        `start`: returns the capture's start in the log, for the offset of its first END.
        """
        last = self._cuts.last()
        # above every table's offset: after a kill between two commits, one may be ahead of the last cut
        at = max(self.highest_offset(), last.position.end_offset if last else BEFORE_LOG) + 1
        position = Position(at, lsn, 0, offsets, start(at + 1))
        self._cuts.add(self._cut(self._tables.active(), position, committed_ms), last)

    def joining(self) -> dict[TableName, Bookmark]:
        """The tables not yet in cuts: they lack the changes between their copy and the position."""
        part = self._tables_in(self._cuts.last())
        return {name: table.bookmark for name, table in self._tables.active().items() if name not in part}

    def find_absent(self, position: Position) -> set[TableName]:
        """The tables whose present copy is not in the cut at this position."""
        cut = self._cuts.find(position.end_offset)
        return {name for name, s in self._tables.active().items() if cut is None or not s.is_in(cut)}

    def adopt(self, names: Iterable[TableName]) -> None:
        """Let these tables join the cuts, unless they are stopped: they have caught up with the position."""
        going = self._tables.active()
        self._adopted |= {going[name].writer.snapshot.table_id for name in names if name in going}

    def catch_up(self, batch: ChangeBatch) -> None:
        """Apply a batch from before the position to the joining tables only; adds no cut."""
        joining = self.joining()
        tables = {name: s for name, s in self._tables.all().items() if name in joining}
        self._applier.apply(batch, tables, int(batch.ends.offset[-1]))

    def maintain(self, needed: Iterable[Position]) -> None:
        """Maintain all tables. `needed`: the positions of followers behind, whose past is kept.

        May run in another thread, beside `apply`. Raises TableLostError after the other tables' turn.
        """
        self._maintenance.run(needed)

    def close(self) -> None:
        """Save the indexes for the next process."""
        for _, writer in self._tables.list_open():
            writer.save_index(everything=True)

    def _tables_in(self, last: Cut | None) -> dict[TableName, FollowedTable]:
        going = self._tables.active()
        if last is None:
            return going
        return {
            name: table
            for name, table in going.items()
            # not tables that joined just now: this batch was read without them
            if table.is_in(last) or table.writer.snapshot.table_id in self._adopted
        }

    def _cut(self, tables: Mapping[TableName, FollowedTable], position: Position, committed_ms: int) -> Cut:
        reached = {
            str(name): table.writer.snapshot
            for name, table in tables.items()
            # a copy ahead of the position joins once a cut reaches it
            if table.bookmark.is_reached_by(position.lsn)
        }
        versions = {name: snapshot.version for name, snapshot in reached.items()}
        ids = {name: snapshot.table_id for name, snapshot in reached.items()}
        commits = {name: snapshot.commit_id for name, snapshot in reached.items() if snapshot.commit_id}
        return Cut(replace(position, cut=uuid.uuid4().hex), committed_ms, versions, ids, commits)
