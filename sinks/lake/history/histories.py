"""The histories of a lake: kept beside their tables, one batch after the other.

A bulkhead is around each: whatever happens to a history stops that one by name, and its table is followed on.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

from cdc.columns.netting.batch import TableChanges
from cdc.columns.netting.ends import Ends
from cdc.core.errors import TableLostError
from cdc.core.position import BEFORE_LOG
from cdc.core.table import TableName
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.snapshot import Snapshot, TxnUpdate, now_ms
from cdc.sinks.lake.history.copies import copied_rows, ended_rows, live_keys
from cdc.sinks.lake.history.epochs import Epoch, find_put_back, list_epochs
from cdc.sinks.lake.history.facts import Gap, HistoryMoment
from cdc.sinks.lake.history.kept import KeptHistory
from cdc.sinks.lake.history.new_epoch import CopiedTable, EpochMaker
from cdc.sinks.lake.history.rows import TableVersions, UnsentVersionError, make_rows
from cdc.sinks.lake.history.shape import find_misfit, find_obstacle, history_name, widen
from cdc.sinks.lake.history.stops import (
    HistoryStoppedError,
    StoppedHistories,
    StoppedHistory,
    describe_trouble,
    is_own_trouble,
)
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cuts
from cdc.sinks.lake.table.writer import TableWriter

SPILL: Final = "spill"
"""The folder beside the indexes for what does not fit into memory."""


class Histories:
    """Keeps the histories of some tables.

    A batch's versions are committed before the table's own rows: unsent values are taken from the rows before the
    batch. The history's own position says what it has, so that a batch that is repeated adds nothing twice.
    """

    def __init__(self, lake: Lake, names: Collection[TableName], indexes: Path, cuts: Cuts) -> None:
        self._lake = lake
        self._names = frozenset(names)
        self._spill = indexes / SPILL
        self._cuts = cuts
        self._stops = StoppedHistories(lake)
        self._maker = EpochMaker(lake, indexes, cuts)
        self._kept: dict[TableName, KeptHistory] = {}
        # the epochs that have ended, and can be read
        self._past: dict[TableName, Mapping[TableName, Snapshot]] = {}
        self._notes: list[str] = []

    def has(self, name: TableName) -> bool:
        """Is a history of this table to be kept?"""
        return name in self._names

    def add(self, table: CopiedTable, changes: TableChanges | None, ends: Ends, version: int) -> None:
        """Add the versions of a batch, if a history of the table is kept; `version`: the offset of its last END.

        Call it before the table's own commit. Raises what the whole machine or store has for trouble, RefusedError
        when another process keeps the history, and TableLostError when the table itself is lost.
        """
        if not self.has(table.table.name):
            return
        # tables with a history are read by the driver
        assert changes is not None
        with self._bulkhead(table, raises=_is_of_table), table.writer.lock:
            history = self._open(table, ends.last.committed_ms)
            if history is not None:
                self._add(history, table.writer, TableVersions(changes.changes, changes.ranks, ends), version)

    def _add(self, history: KeptHistory, source: TableWriter, versions: TableVersions, version: int) -> None:
        after = self._offset_of(history)
        if version <= after:
            return
        # only indexed files yield old rows
        source.rows.index_new_files()
        rows = make_rows(versions, source.table, after, source.read_rows, lambda: live_keys(source))
        try:
            history.append(rows, self._move_to(history, version))
        except UnsentVersionError:
            why = "an update left out values, and the lake has no previous row to take them from"
            raise HistoryStoppedError(why) from None

    def begin(self, tables: Mapping[TableName, CopiedTable], committed_ms: int) -> None:
        """Begin the histories of tables that have none of their present copy or shape.

        `committed_ms`: when the last transaction that the tables have was committed.
        """
        for name, table in tables.items():
            if self.has(name):
                with self._bulkhead(table):
                    self._open(table, committed_ms)

    def copy_again(self, table: CopiedTable) -> None:
        """Begin a copy of the table's present rows, if a history of it is kept: nobody knows what came in between."""
        if self.has(table.table.name):
            with self._bulkhead(table), table.writer.lock:
                self._open(table, now_ms(), copy_again=True)

    def snapshots(self, names: Collection[TableName]) -> dict[TableName, Snapshot]:
        """The histories of these tables as they are, by their own names, with the epochs that have ended.

        Without stopped ones, and those that have not begun.
        """
        past = {name: snapshot for n in sorted(names) for name, snapshot in self._past.get(n, {}).items()}
        kept = [self._kept[n].writer for n in sorted(names) if n in self._kept]
        return past | {writer.table.name: writer.snapshot for writer in kept}

    def highest_offset(self) -> int:
        """The highest END offset of any history; after a crash, beyond its table's."""
        return max(map(self._offset_of, self._kept.values()), default=BEFORE_LOG)

    def list_open(self) -> list[tuple[TableName, TableWriter]]:
        """The histories opened so far; safe beside the thread that opens them."""
        return [(kept.writer.table.name, kept.writer) for kept in list(self._kept.values())]

    def stops(self, tables: Mapping[TableName, CopiedTable]) -> list[StoppedHistory]:
        """The histories of these tables that are kept no further."""
        found = [(self._stops.find(name), table) for name, table in tables.items() if self.has(name)]
        return [stop for stop, table in found if stop and stop.is_of(table.bookmark)]

    def take_notes(self) -> list[str]:
        """Lines to say, each once: of histories that stopped, or went on in a new epoch."""
        taken, self._notes = self._notes, []
        return taken

    @contextmanager
    def _bulkhead(
        self, table: CopiedTable, raises: Callable[[Exception, TableName], bool] = lambda error, name: False
    ) -> Iterator[None]:
        """Stop the history by whatever happens to it; `raises`: what else goes to the caller."""
        try:
            yield
        except Exception as error:
            if not is_own_trouble(error) or raises(error, table.table.name):
                raise
            self._stop(table, error)

    def _stop(self, table: CopiedTable, error: Exception) -> None:
        name = table.table.name
        kept = self._kept.pop(name, None)
        number = kept.facts.epoch if kept else len(list_epochs(self._lake, name, self._cuts.last()))
        history = history_name(name, max(number, 1))
        cut = self._cuts.find_last_with(str(history))
        lsn = cut.position.lsn if cut else table.bookmark.lsn
        stop = StoppedHistory(
            name.schema, name.table, number, table.bookmark.lsn, lsn, describe_trouble(error, history)
        )
        # if this fails, the trouble is that of the whole lake, and the batch is tried again
        self._stops.add(stop)
        self._notes.append(f"{stop}; the table itself is followed on → {stop.remedy}")

    def _open(self, table: CopiedTable, committed_ms: int, *, copy_again: bool = False) -> KeptHistory | None:
        """The history of the table's present copy, with its columns; None when it is stopped."""
        name = table.table.name
        stop = self._stops.find(name)
        if stop is not None and stop.is_of(table.bookmark):
            if name not in self._past:
                self._set_past(name, list_epochs(self._lake, name, self._cuts.last())[: max(stop.epoch - 1, 0)])
            return None
        if why := find_obstacle(table.table):
            raise HistoryStoppedError(f"{why} (mend that first)")
        at, history = self._moment_of(table), self._kept.get(name) or self._find(table, stop)
        if history is None:
            history = self._begin_epoch(table, at, "")
        elif why := self._find_end_reason(history, table):
            history = self._begin_epoch(table, at, why)
        self._kept[name] = history
        if copy_again or self._lacks_rows(history, table):
            self._take_copy(history, table, at, is_gap=not copy_again)
        elif not history.facts.shapes[-1].is_of(table.table):
            altered = layout.schema_lsn(table.writer.snapshot)
            facts = history.facts.with_shape(table.table, HistoryMoment(altered, committed_ms))
            history.describe(widen(history.writer.table, table.table), facts, altered)
        return history

    def _find(self, table: CopiedTable, stop: StoppedHistory | None) -> KeptHistory | None:
        """The last epoch; None when another one is to begin."""
        name = table.table.name
        epochs = list_epochs(self._lake, name, self._cuts.last())
        is_over = stop is not None and stop.epoch >= len(epochs)
        ended = epochs if is_over else epochs[:-1]
        self._set_past(name, ended)
        lost = [f"{epoch.name}, which has ended, cannot be read: {epoch.why}" for epoch in ended if not epoch.opened]
        self._notes += [f"{each} → put it back as it was" for each in lost]
        if is_over or not epochs:
            return None
        if epochs[-1].opened is None:
            raise HistoryStoppedError(epochs[-1].why)
        return self._maker.open(epochs[-1].opened)

    def _set_past(self, name: TableName, epochs: list[Epoch]) -> None:
        self._past[name] = {epoch.name: epoch.opened.log.snapshot for epoch in epochs if epoch.opened}

    def _find_end_reason(self, history: KeptHistory, table: CopiedTable) -> str | None:
        """Why the history cannot take the table's rows any more."""
        is_known = history.facts.shapes[-1].is_of(table.table) and self._is_of_copy(history, table)
        return None if is_known else find_misfit(history.writer.table, table.table)

    def _begin_epoch(self, table: CopiedTable, at: HistoryMoment, why: str) -> KeptHistory:
        """Begin the next epoch; `why`: what ended the last one, empty if it was stopped."""
        name, stop = table.table.name, self._stops.find(table.table.name)
        epochs = list_epochs(self._lake, name, self._cuts.last())
        number = max(len(epochs), stop.epoch if stop else 0) + 1
        begun = self._maker.begin(table, number, epochs[-1] if epochs else None, at)
        self._set_past(name, epochs)
        if number > 1:
            last, present = history_name(name, number - 1), begun.writer.table.name
            ending = f"{last} has ended: {why}" if why else f"{last} was stopped"
            self._notes.append(f"{ending}; the history of {name} goes on in {present}")
        return begun

    def _lacks_rows(self, history: KeptHistory, table: CopiedTable) -> bool:
        # it is ahead of its table after a kill, never behind, unless it was not kept for a while
        return not self._is_of_copy(history, table) or self._offset_of(history) < table.offset

    def _goes_on_beyond(self, history: KeptHistory, table: CopiedTable) -> bool:
        """Has the history, of this shape, every change up to a new copy, and beyond? A rebuild takes such a copy.

        A table that was stopped meanwhile, or not kept, has no history in the cuts since, and a new capture none yet.
        """
        name, writer = str(history.writer.table.name), history.writer
        if self._is_of_copy(history, table) or not history.facts.shapes[-1].is_of(table.table):
            return False
        cut = self._cuts.find_last_with(name)
        if cut is None or not self._cuts.is_of_present_capture(cut) or find_put_back(writer.log, name, cut):
            return False
        return table.bookmark.is_reached_by(cut.position.lsn) and table.offset <= cut.position.end_offset

    def _take_copy(self, history: KeptHistory, table: CopiedTable, at: HistoryMoment, *, is_gap: bool) -> None:
        """Add the rows of a new copy, and end the versions of keys that it does not have."""
        if is_gap and self._goes_on_beyond(history, table):
            # it has these rows, and what it lacks of the changes since is brought by the table's replay
            offset = max(self._offset_of(history), table.offset)
            history.append((), self._move_to(history, offset), [self._copy_mark(history, table)])
            return
        source, facts = table.writer, history.facts
        if self._copied_lsn(history) is None:
            facts = facts.beginning_at(table.table, at)
        elif is_gap:
            facts = facts.with_shape(table.table, at).with_gap(Gap(self._maker.known_until(history), at))
        altered = layout.schema_lsn(source.snapshot)
        history.describe(widen(history.writer.table, table.table), facts, altered)
        parts = chain(copied_rows(source, at), ended_rows(history.writer, source, at, self._spill))
        history.append(parts, self._move_to(history, table.offset), [self._copy_mark(history, table)])

    def _moment_of(self, table: CopiedTable) -> HistoryMoment:
        """The moment at which the table stands: its copy's, or the last cut's if changes were applied since."""
        cut = self._cuts.last()
        if table.offset == BEFORE_LOG or cut is None:
            return HistoryMoment(table.bookmark.lsn, now_ms())
        return HistoryMoment(max(cut.position.lsn, table.bookmark.lsn), now_ms())

    def _copy_mark(self, history: KeptHistory, table: CopiedTable) -> TxnUpdate:
        return TxnUpdate(self._copy_id, self._copied_lsn(history), table.bookmark.lsn)

    def _is_of_copy(self, history: KeptHistory, table: CopiedTable) -> bool:
        return self._copied_lsn(history) == table.bookmark.lsn

    def _copied_lsn(self, history: KeptHistory) -> int | None:
        """The bookmark of the last copy that the history has; None before the first."""
        return history.writer.snapshot.transactions.get(self._copy_id)

    @property
    def _copy_id(self) -> str:
        return f"{self._lake.app_id}/copy"

    def _offset_of(self, history: KeptHistory) -> int:
        offset = history.writer.snapshot.transactions.get(self._lake.app_id)
        return BEFORE_LOG if offset is None else offset

    def _move_to(self, history: KeptHistory, offset: int) -> TxnUpdate:
        return TxnUpdate(self._lake.app_id, history.writer.snapshot.transactions.get(self._lake.app_id), offset)


def _is_of_table(error: Exception, name: TableName) -> bool:
    """Is it the table that is lost, not its history? Then it is stopped and copied again, and its history goes on."""
    return isinstance(error, TableLostError) and error.what.startswith(f"{name}: ")
