"""The Delta follower: one table a table of the source, and a cut after every batch."""

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.batch import ChangeBatch
from cdc.columns.netting.transactions import Ends
from cdc.core.errors import CdcError, PreconditionError, TableLostError
from cdc.core.position import BEFORE_LOG, Bookmark, LogStart, Lsn, Offsets, Position
from cdc.core.table import Table, TableName
from sinks.lake import layout
from sinks.lake.apply.apply import Intake, Left
from sinks.lake.apply.replay import Replay
from sinks.lake.apply.spark_batch import Wanted
from sinks.lake.apply.tables import Standing, Standings
from sinks.lake.delta.price import Price
from sinks.lake.delta.retention import Retention
from sinks.lake.feed.change_cache import RecentChanges
from sinks.lake.layout import Lake
from sinks.lake.metadata.cuts import Cut, Cuts, needed_since
from sinks.lake.metadata.dead_letters import DeadLetter
from sinks.lake.metadata.stopped_tables import Stop
from sinks.lake.metadata.table import LOOK_SECONDS
from sinks.lake.pace import Cost
from sinks.lake.settings import DeltaSettings
from sinks.lake.table import maintenance as upkeep
from sinks.lake.table.load import CopiedFiles, release, take_in
from sinks.lake.table.writer import LiveTable

CUT = Cost(beside=6 * 1024, files=2)
"""What a cut writes: a file of one row, and a commit."""
IDLE_SECONDS = 300.0
"""How often the upkeep looks at a table that does not change."""


class DeltaFollower:
    """A `Follower` of Parquet copies and `ChangeBatch`es.

    `indexes` is a folder of this machine for the indexes of keys; `recent` is told what was written.
    """

    def __init__(self, settings: DeltaSettings, lake: Lake, indexes: Path, recent: RecentChanges | None = None) -> None:
        self._settings = settings
        self._lake = lake
        self._recent = recent or RecentChanges()
        look_seconds = 0.0 if lake.access is None else LOOK_SECONDS
        self._cuts = Cuts(lake, look_seconds)
        self._standings = Standings(lake, indexes, look_seconds)
        self._intake = Intake(settings, lake, self._standings, self._recent, self.stop)
        self._lost: list[Stop] = []
        # by the Delta table's id: one that is copied again has all of this before it again
        self._adopted: set[str] = set()
        # of the thread that maintains alone
        self._maintained: dict[TableName, tuple[int, float]] = {}

    def prepare(self, tables: Sequence[Table]) -> None:
        """Refuse what is not ours, and make the lake's own tables; a captured table's comes with its copy."""
        for table in tables:
            try:
                layout.owned(self._lake, table.name)
            except TableLostError:
                # it may be copied anew
                continue
            except PreconditionError:
                # what others have made of one of ours is its own matter
                if not self._standings.is_listed(table.name):
                    raise
        self._cuts.prepare()
        self._standings.add([table.name for table in tables])

    def load(self, table: Table, copy: CopiedFiles, bookmark: Bookmark, *, anew: bool = False) -> None:
        """Take the copied files in with one commit; whatever the table held before is replaced by it.

        `anew`: as another table, by its id, also where the old one was not stopped.
        """
        # of one that was lost, what can be read may have the id that cuts know it by
        lost = self._standings.of(table.name) is None
        stopped = {stop.name for stop in self.stops()}
        take_in(self._lake, table, copy, bookmark, anew=anew or lost or table.name in stopped)
        self._standings.forget([table.name])

    def release(self, names: Sequence[TableName]) -> None:
        """Follow these tables no more. What the lake has of them stays; named again, they are copied again."""
        for name in names:
            release(self._lake, name)
        self._standings.forget(names)
        # last: a table that is listed and has no bookmark is one whose copy is still to be made
        self._standings.remove(names)

    def bookmarks(self) -> dict[TableName, Bookmark]:
        return {name: standing.bookmark for name, standing in self._standings.all().items()}

    def tables(self) -> list[Table]:
        """The tables that are loaded and not stopped, as they were when they were copied."""
        return [standing.table for standing in self._standings.going().values()]

    def copied(self) -> list[Table]:
        """The tables that are loaded, stopped ones among them, as they were when they were copied."""
        return [standing.table for standing in self._standings.all().values()]

    def taking_part(self) -> list[Table]:
        """The tables that the next batch is applied to; others are adopted first."""
        return [standing.table for standing in self._taking_part(self._cuts.last()).values()]

    def stops(self) -> list[Stop]:
        """The tables that are followed no further."""
        return self._standings.stopped()

    def stop(self, reasons: Mapping[TableName, str], copy: Collection[TableName] = ()) -> list[Stop]:
        """Apply nothing further to these tables; `copy`: those that whoever follows is to copy again."""
        last = self._cuts.last()
        return self._standings.stop(reasons, last.position.lsn if last else Lsn(0), copy)

    def check_tables(self) -> list[Stop]:
        """Stop the tables that are not what the last cut names, nor came from it: gone, damaged, put back to an older
        state or changed by other writers since. They are to be copied again."""
        last = self._cuts.last()
        if last is None:
            return []
        strayed = self._standings.strayed(last)
        return [*self._standings.stop_lost(last), *self.stop(strayed, copy=strayed)]

    def lacking(self, lsn: Lsn) -> list[Table]:
        """The tables that know nothing yet of a schema change at this LSN, stopped ones among them."""
        return [s.table for s in self._standings.all().values() if not s.bookmark.covers(lsn) and lsn > s.schema_lsn]

    def widen(self, table: Table, lsn: Lsn) -> None:
        """Give a table the further columns that a schema change at this LSN brought, and that its rows lack."""
        self._standings.going()[table.name].live.widen(table, lsn)

    def reopen(self, names: Iterable[TableName]) -> None:
        """Look at these tables anew: somebody has copied them again."""
        self._standings.forget(names)

    def held(self) -> dict[TableName, tuple[int, int]]:
        """The tables of which changes wait: how many keys are held, and how many messages lie there."""
        return self._intake.held()

    def left(self) -> Left:
        """What the batches since the last question have left: tables stopped, and keys held."""
        left, lost, self._lost = self._intake.left(), self._lost, []
        return replace(left, stopped=[*lost, *left.stopped])

    def letters(self) -> list[DeadLetter]:
        """The dead letters of the tables as they are now; those of a former copy are void."""
        return self._intake.letters()

    def replay(self, name: TableName, decoder: Decoder, given_up: Collection[bytes] = ()) -> Replay:
        """Apply a table's dead letters, as `Intake.replay` does, where the last cut stands.

        Raises PreconditionError for a table that is not in it.
        """
        last = self._cuts.last()
        if last is None or not self._standings.all()[name].is_in(last):
            # what lies between its copy and the cut would pass for applied
            raise PreconditionError(f"{name} is in no cut of the lake yet", "run `cdc follow` first")
        return self._intake.replay(name, last.position.end_offset, decoder, given_up)

    def drop(self, letters: Collection[DeadLetter]) -> None:
        """Forget letters, which are applied to nothing."""
        self._intake.drop(letters)

    def position(self) -> Position | None:
        self._cuts.look()
        cut = self._cuts.last()
        return cut.position if cut else None

    def applied(self, run: Ends) -> dict[TableName, int]:
        """The offset of the last of these ENDs that each table has, by its copy or by a batch."""
        return {name: standing.applied(run) for name, standing in self._standings.going().items()}

    def wanted(self, run: Ends, topics: Mapping[TableName, str]) -> list[Wanted]:
        """What the tables of these topics lack of a run; tables without any changes in it are left out."""
        going = {name: s for name, s in self._standings.going().items() if name in topics}
        found = [(s, s.applied(run), topics[name]) for name, s in going.items()]
        return [
            Wanted(s.table, topic, count, after, s.live.storage, self._intake.holds(s))
            for s, after, topic in found
            if (count := run.where(run.offset > after).counts([str(s.table.name)]).get(str(s.table.name)))
        ]

    def furthest(self) -> int:
        """The highest END offset that any table has: after a crash, further than the last cut."""
        return max((s.offset for s in self._standings.going().values()), default=BEFORE_LOG)

    def apply(self, batch: ChangeBatch, position: Position) -> None:
        before = self._cuts.last()
        if before is not None and position.end_offset <= before.position.end_offset:
            return
        standings = self._taking_part(before)
        # those that went away, or cannot be opened any more, since they were looked at last
        self._lost += self._standings.stop_lost(before) if before else []
        # tables, cut, bell: a cut names what is there. Killed in between, some tables are ahead of the last cut, and
        # the next run reaches as far as `furthest` says: no cut shows them ahead of others
        self._intake.apply(batch, standings, position.end_offset)
        # without those that this batch has stopped
        going = self._standings.going(standings)
        self._cuts.add(self._cut(going, position, batch.ends.last.committed_ms), before)
        self._recent.ring()

    def cost(self) -> Cost:
        """What the last batch has written, its cut included."""
        return self._intake.cost + CUT

    def price(self) -> Price:
        """What keeping the lake fresh costs at the present rate, its cuts included."""
        tables = (standing.live.log.written.price() for standing in self._standings.all().values())
        return sum(tables, self._cuts.price())

    def first_cut(self, committed_ms: int) -> None:
        """Mark the copies themselves as a cut, before any batch: it stands where the oldest of them does."""
        standings = self._standings.all()
        if self._cuts.last() is None and standings:
            lsn = min(standing.bookmark.lsn for standing in standings.values())
            position = Position(self._lake.generation, BEFORE_LOG, lsn, 0, log_start=LogStart(lsn=lsn))
            self._cuts.add(self._cut(standings, position, committed_ms), None)

    def begin_capture(self) -> int:
        """Note that the capture starts anew: nobody goes on from the last cut. Gives the new capture's number."""
        return self._cuts.begin_capture()

    def check_capture(self) -> None:
        """Raise HistoryLostError when the capture was to start anew, and that was not brought to its end."""
        self._cuts.check_capture()

    def start_over(self, start: Callable[[int], LogStart], lsn: Lsn, offsets: Offsets, committed_ms: int) -> None:
        """Mark the copies as the first cut of a capture that starts anew at this LSN, and reads on at these offsets.

        `start`: where that capture begins in the log, for the END that is counted next.
        """
        last = self._cuts.last()
        # above all that any table has: killed between two commits, one may be ahead of the last cut
        at = max(self.furthest(), last.position.end_offset if last else BEFORE_LOG) + 1
        position = Position(1, at, lsn, 0, offsets, start(at + 1))
        self._cuts.add(self._cut(self._standings.going(), position, committed_ms), last)

    def joining(self) -> dict[TableName, Bookmark]:
        """Tables that take no part yet: they lack what lies between their copy and the position."""
        part = self._taking_part(self._cuts.last())
        return {name: standing.bookmark for name, standing in self._standings.going().items() if name not in part}

    def absent(self, position: Position) -> set[TableName]:
        """The tables that are not in the cut at this position as they were copied last."""
        cut = self._cuts.at(position.end_offset)
        return {name for name, s in self._standings.going().items() if cut is None or not s.is_in(cut)}

    def adopt(self, names: Iterable[TableName]) -> None:
        """Let these tables take part, unless they have stopped: they have caught up with the position."""
        going = self._standings.going()
        self._adopted |= {going[name].live.state.table_id for name in names if name in going}

    def catch_up(self, batch: ChangeBatch) -> None:
        """Apply a batch from before the position to the joining tables only; no cut comes of it."""
        joining = self.joining()
        standings = {name: s for name, s in self._standings.all().items() if name in joining}
        self._intake.apply(batch, standings, int(batch.ends.offset[-1]))

    def maintain(self, needed: Iterable[Position]) -> None:
        """Keep the tables quick to read and their past short; followers behind stand at these cuts and read on.

        May run beside `apply`, in another thread.
        """
        # before the question for the last cut: later ones have no table at an older version than these. And a list,
        # since the thread that applies opens tables meanwhile
        opened = [(name, live, live.state.version) for name, live in self._standings.opened()]
        last = self._cuts.last()
        if last is None:
            return
        cuts = [cut for at in needed if (cut := self._cuts.at(at.end_offset))]
        behind = [cut for cut in cuts if cut.position.end_offset < last.position.end_offset]
        hours = self._settings.history_hours
        failed = list[CdcError]()
        for name, live, version in opened:
            if not self._is_due(name, live):
                continue
            try:
                upkeep.maintain(live, Retention(hours, needed_since(str(name), behind, last, version)))
            except TableLostError as lost:
                # the others are kept up no less; a batch that meets it stops the table
                failed.append(lost)
        self._cuts.maintain(hours, min((cut.position.end_offset for cut in cuts), default=None))
        self._intake.maintain(hours)
        if failed:
            raise failed[0]

    def _is_due(self, name: TableName, live: LiveTable) -> bool:
        """A table that nobody has written to is looked at now and then only: its past gets older."""
        version, moment = self._maintained.get(name, (-1, float("-inf")))
        due = live.state.version != version or time.monotonic() - moment > IDLE_SECONDS
        if due:
            self._maintained[name] = (live.state.version, time.monotonic())
        return due

    def close(self) -> None:
        """Keep what the next process would have to find out again."""
        for _, live in self._standings.opened():
            live.save_index(everything=True)

    def _taking_part(self, last: Cut | None) -> dict[TableName, Standing]:
        going = self._standings.going()
        if last is None:
            return going
        return {
            name: standing
            for name, standing in going.items()
            # not one that came this moment and has all that the position has: the batch was read without it
            if standing.is_in(last) or standing.live.state.table_id in self._adopted
        }

    def _cut(self, standings: Mapping[TableName, Standing], position: Position, committed_ms: int) -> Cut:
        reached = {
            str(name): standing.live.state
            for name, standing in standings.items()
            # a copy that is ahead of the position joins a cut that has reached it
            if standing.bookmark.is_reached_by(position.lsn)
        }
        versions = {name: state.version for name, state in reached.items()}
        ids = {name: state.table_id for name, state in reached.items()}
        commits = {name: state.commit for name, state in reached.items() if state.commit}
        return Cut(replace(position, cut=uuid.uuid4().hex), committed_ms, versions, ids, commits)
