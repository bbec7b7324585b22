"""The Delta follower: one table a table of the source, and a cut after every batch."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from cdc.columns.batch import ChangeBatch, Ranks
from cdc.columns.changes import RefusedMessage
from cdc.columns.ends import Ends
from cdc.core.errors import DivergenceError, HistoryLostError, PreconditionError
from cdc.core.position import BEFORE_LOG, Bookmark, Lsn, Position
from cdc.core.table import Table, TableName
from sinks.lake import layout, refusals, upkeep, write
from sinks.lake.copied_files import CopiedFiles, release, take_in
from sinks.lake.cuts import Cut, Cuts
from sinks.lake.large_batch import Wanted
from sinks.lake.layout import Lake
from sinks.lake.live_table import LiveTable
from sinks.lake.recent import RecentChanges
from sinks.lake.settings import DeltaSettings
from sinks.lake.stopped import Stop, StoppedTables, again
from sinks.lake.table_list import TableList
from sinks.lake.upkeep import Past

IDLE_SECONDS = 300.0
"""How often the upkeep looks at a table that does not change."""


@dataclass(frozen=True, slots=True)
class _Standing:
    """A table as the follower has it: its copy's bookmark, and the last END applied to it."""

    live: LiveTable
    bookmark: Bookmark
    offset: int

    @property
    def table(self) -> Table:
        return self.live.table

    @property
    def schema_lsn(self) -> Lsn:
        """That of the last schema change that the table took in."""
        return layout.schema_lsn(self.live.state)

    def is_in(self, cut: Cut) -> bool:
        """Is it this very Delta table that the cut has, and not one of its name that was lost and copied anew?"""
        name, id = str(self.table.name), self.live.state.table_id
        return name in cut.versions and cut.ids.get(name, id) == id

    def applied(self, ends: Ends) -> int:
        """The offset of the last of these ENDs that the table has, by its copy or by a batch."""
        # ENDs stand in the order of their LSNs: what the copy has is the first part of them
        covered = ends.offset[ends.lsn <= self.bookmark.lsn]
        return max(self.offset, int(covered[-1]) if len(covered) else BEFORE_LOG)


class DeltaFollower:
    """A `Follower` of Parquet copies and `ChangeBatch`es.

    `indexes` is a folder of this machine for the indexes of keys; `recent` is told what was written.
    """

    def __init__(self, settings: DeltaSettings, lake: Lake, indexes: Path, recent: RecentChanges | None = None) -> None:
        self._settings = settings
        self._lake = lake
        self._indexes = indexes
        self._recent = recent or RecentChanges()
        self._cuts = Cuts(lake)
        self._table_list = TableList(lake)
        self._stopped = StoppedTables(lake)
        self._tables: dict[TableName, LiveTable] = {}
        self._adopted: set[TableName] = set()
        self._maintained: dict[TableName, tuple[int, float]] = {}

    def prepare(self, tables: Sequence[Table]) -> None:
        """Refuse what is not ours, and make the lake's own tables; a captured table's comes with its copy."""
        for table in tables:
            layout.owned(self._lake, table.name)
        self._cuts.prepare()
        self._table_list.add([table.name for table in tables])

    def load(self, table: Table, copy: CopiedFiles, bookmark: Bookmark) -> None:
        """Take the copied files in with one commit; whatever the table held before is replaced by it."""
        take_in(self._lake, table, copy, bookmark, anew=table.name in {stop.name for stop in self.stopped()})
        self._tables.pop(table.name, None)

    def release(self, names: Sequence[TableName]) -> None:
        """Follow these tables no more. What the lake has of them stays; named again, they are copied again."""
        for name in names:
            release(self._lake, name)
            self._tables.pop(name, None)
        # last: a table that is listed and has no bookmark is one whose copy is still to be made
        self._table_list.remove(names)

    def bookmarks(self) -> dict[TableName, Bookmark]:
        return {name: standing.bookmark for name, standing in self._standings().items()}

    def tables(self) -> list[Table]:
        """The tables that are loaded and not stopped, as they were when they were copied."""
        return [standing.table for standing in self._going().values()]

    def stopped(self) -> list[Stop]:
        """The tables that are followed no further."""
        stops = self._stopped.by_id()
        found = (stops.get(standing.live.state.table_id) for standing in self._standings().values())
        return [stop for stop in found if stop]

    def stop(self, reasons: Mapping[TableName, str], *, copy: Collection[TableName] = ()) -> list[Stop]:
        """Apply nothing further to these tables: the others go on, and cuts no longer have them.

        `copy`: those that whoever follows is to copy again.
        """
        going, lsn = self._going(), self._reached()
        stops = [
            Stop(
                going[name].live.state.table_id,
                name.schema,
                name.table,
                max(lsn, going[name].bookmark.lsn),
                reason,
                name in copy,
            )
            for name, reason in reasons.items()
            if name in going
        ]
        # what stopped before, and is to be copied now
        again = [replace(stop, copy=True) for stop in self.stopped() if stop.name in copy and not stop.copy]
        stops += [stop for stop in again if stop.name in reasons]
        if stops:
            self._stopped.add(stops)
        return stops

    def lacking(self, lsn: Lsn) -> list[Table]:
        """The tables that know nothing yet of a schema change at this LSN, stopped ones among them."""
        return [s.table for s in self._standings().values() if not s.bookmark.covers(lsn) and lsn > s.schema_lsn]

    def widen(self, table: Table, lsn: Lsn) -> None:
        """Give a table the further columns that a schema change at this LSN brought, and that its rows lack."""
        self._going()[table.name].live.widen(table, lsn)

    def reopen(self, names: Iterable[TableName]) -> None:
        """Look at these tables anew: somebody has copied them again."""
        for name in names:
            self._tables.pop(name, None)

    def position(self) -> Position | None:
        cut = self._cuts.last()
        return cut.position if cut else None

    def wanted(self, run: Ends, topics: Mapping[TableName, str]) -> list[Wanted]:
        """What the tables lack of a run, by the topics that their changes are in; tables without any are left out."""
        standings = self._going().values()
        counts = run.counts(str(standing.table.name) for standing in standings)
        return [
            Wanted(s.table, topics[s.table.name], counts[str(s.table.name)], s.applied(run), s.live.storage)
            for s in standings
            if str(s.table.name) in counts
        ]

    def furthest(self) -> int:
        """The highest END offset that any table has: after a crash, further than the last cut."""
        return max((s.offset for s in self._going().values()), default=BEFORE_LOG)

    def apply(self, batch: ChangeBatch, position: Position) -> None:
        before = self._cuts.last()
        if before is not None and position.end_offset <= before.position.end_offset:
            return
        standings = self._taking_part(before)
        # tables, cut, bell: a cut names what is there. Killed in between, some tables are ahead of the last cut, and
        # the next run reaches as far as `furthest` says: no cut shows them ahead of others
        self._apply_tables(batch, standings, position.end_offset)
        going = {name: standing for name, standing in standings.items() if name in self._going()}
        self._cuts.add(self._cut(going, position, batch.ends.last.committed_ms), before)
        self._recent.ring()

    def first_cut(self, committed_ms: int) -> None:
        """Mark the copies themselves as a cut, before any batch: it stands where the oldest of them does."""
        standings = self._standings()
        if self._cuts.last() is None and standings:
            lsn = min(standing.bookmark.lsn for standing in standings.values())
            position = Position(self._lake.generation, BEFORE_LOG, lsn, 0)
            self._cuts.add(self._cut(standings, position, committed_ms), None)

    def joining(self) -> dict[TableName, Bookmark]:
        """Tables whose copy is older than the position, and that took part in no cut: they lack what lies between."""
        part = self._taking_part(self._cuts.last())
        return {name: standing.bookmark for name, standing in self._going().items() if name not in part}

    def adopt(self, names: Iterable[TableName]) -> None:
        """Let these tables take part: they have caught up with the position."""
        self._adopted |= set(names)

    def catch_up(self, batch: ChangeBatch) -> None:
        """Apply a batch from before the position to the joining tables only; no cut comes of it."""
        standings = {name: s for name, s in self._standings().items() if name in self.joining()}
        self._apply_tables(batch, standings, int(batch.ends.offset[-1]))

    def maintain(self, needed: Iterable[Position]) -> None:
        """Keep the tables quick to read and their past short; followers behind stand at these cuts and read on.

        May run beside `apply`, in another thread.
        """
        last = self._cuts.last()
        if last is None:
            return
        cuts = [cut for at in needed if (cut := self._cuts.at(at.end_offset))]
        hours = self._settings.history_hours
        # a list, since the thread that applies opens tables meanwhile
        for name, live in list(self._tables.items()):
            if not self._is_due(name, live):
                continue
            versions = [cut.versions[str(name)] for cut in (*cuts, last) if str(name) in cut.versions]
            # a table that is in none of these cuts keeps all of its past
            upkeep.maintain(live, Past(hours, min(versions, default=0)))
        self._cuts.maintain(hours, min((cut.position.end_offset for cut in cuts), default=None))

    def _is_due(self, name: TableName, live: LiveTable) -> bool:
        """A table that nobody has written to is looked at now and then only: its past gets older."""
        version, moment = self._maintained.get(name, (-1, float("-inf")))
        due = live.state.version != version or time.monotonic() - moment > IDLE_SECONDS
        if due:
            self._maintained[name] = (live.state.version, time.monotonic())
        return due

    def close(self) -> None:
        """Keep what the next process would have to find out again."""
        for live in self._tables.values():
            live.save_index(everything=True)

    def _taking_part(self, last: Cut | None) -> dict[TableName, _Standing]:
        standings, going = self._standings(), self._going()
        if last is None:
            return going
        for name in map(TableName.parse, last.versions):
            if name not in standings and name in self._table_list.names():
                raise HistoryLostError(f"{name} is gone from the lake {self._lake.path}", "run `cdc bootstrap` again")
        passed = last.position.lsn
        return {
            name: standing
            for name, standing in going.items()
            # in the cut; caught up since; or copied so late that it has all that the position has
            if standing.is_in(last) or name in self._adopted or standing.bookmark.covers(passed)
        }

    def _cut(self, standings: Mapping[TableName, _Standing], position: Position, committed_ms: int) -> Cut:
        reached = {
            str(name): standing.live.state
            for name, standing in standings.items()
            # a copy that is ahead of the position joins a cut that has reached it
            if standing.bookmark.is_reached_by(position.lsn)
        }
        versions = {name: state.version for name, state in reached.items()}
        return Cut(position, committed_ms, versions, {name: state.table_id for name, state in reached.items()})

    def _going(self) -> dict[TableName, _Standing]:
        stops = self._stopped.by_id()
        return {name: s for name, s in self._standings().items() if s.live.state.table_id not in stops}

    def _standings(self) -> dict[TableName, _Standing]:
        return {s.table.name: s for s in map(self._standing, self._table_list.names()) if s}

    def _standing(self, name: TableName) -> _Standing | None:
        live = self._tables.get(name) or self._opened(name)
        mark = layout.bookmark(self._lake, live.state) if live else None
        if live is None or mark is None:
            return None
        offset = live.state.transactions.get(self._lake.app_id)
        return _Standing(live, mark, BEFORE_LOG if offset is None else offset)

    def _opened(self, name: TableName) -> LiveTable | None:
        log = layout.owned(self._lake, name)
        table = layout.described(log.state) if log else None
        if log is None or table is None:
            return None
        folder = self._indexes / layout.folder_name(name)
        live = self._tables[name] = LiveTable(table, self._lake.table(name), log, folder)
        return live

    def _apply_tables(self, batch: ChangeBatch, standings: Mapping[TableName, _Standing], version: int) -> None:
        touched = {name: standings[name] for name in batch.tables if name in standings}
        # first what other hands have committed: what a table lacks is asked of it as it stands now
        for standing in touched.values():
            standing.live.refresh()
        found = [s for s in map(self._standing, touched) if s and s.applied(batch.ends) < batch.ends.offset[-1]]
        work = self._readable(batch, found)
        with ThreadPoolExecutor(self._settings.parallel_tables) as threads:
            # who leaves this block has waited for all of them, also behind the first failure: none writes on unseen
            futures = [threads.submit(self._apply_table, batch, standing, version) for standing in work]
        self._stop_for([(s.table.name, future.exception()) for s, future in zip(work, futures, strict=True)])

    def _stop_for(self, failures: Iterable[tuple[TableName, BaseException | None]]) -> None:
        """Stop the tables that contradict their changes; whatever else was raised ends everything."""
        reasons = {}
        for name, error in failures:
            if isinstance(error, DivergenceError) and self._settings.on_refusal == "hold":
                reasons[name] = error.what
            elif error:
                raise error
        self.stop(reasons)

    def _reached(self) -> Lsn:
        """Up to where whatever is in the last cut has all changes."""
        cut = self._cuts.last()
        return cut.position.lsn if cut else Lsn(0)

    def _readable(self, batch: ChangeBatch, work: Sequence[_Standing]) -> list[_Standing]:
        """The tables of which all can be read. What cannot be is kept, before anything of the batch is applied, and
        the others are stopped, or everything is."""
        refused = {standing.table.name: _refused(batch, standing) for standing in work}
        reasons = {
            name: f"{len(messages)} messages cannot be read, first {messages[0].refusal}"
            f" (kept in {self._lake.own_folder(refusals.FOLDER)})"
            for name, messages in refused.items()
            if messages
        }
        if reasons:
            refusals.keep(self._lake, [message for messages in refused.values() for message in messages])
            if self._settings.on_refusal == "stop":
                name, reason = next(iter(reasons.items()))
                raise PreconditionError(f"{name}: {reason}; nothing of the batch was applied", again(name))
            self.stop(reasons)
        return [standing for standing in work if standing.table.name not in reasons]

    def _apply_table(self, batch: ChangeBatch, standing: _Standing, version: int) -> None:
        effect = batch.effect(standing.table, standing.applied(batch.ends))
        if effect.is_empty:
            return
        live = standing.live
        before = None if standing.offset == BEFORE_LOG else standing.offset
        applied = write.apply(live, effect, write.Position(self._lake.app_id, version, before))
        if applied.changes is not None:
            self._recent.put(live.state.table_id, applied.version, applied.changes)


def _refused(batch: ChangeBatch, standing: _Standing) -> list[RefusedMessage]:
    """The table's messages that are no changes, but for those from before its copy: these may have had any columns."""
    ranks, after = Ranks.of(batch.ends), standing.applied(batch.ends)
    return [each for each in batch.refused(standing.table.name) if ranks.is_behind(each.tx_id, after)]
