"""Begins an epoch of a history: a Delta table of its own, with the numbers and the chain of the one before."""

import json
from pathlib import Path
from typing import Protocol

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import RefusedError
from cdc.core.position import Bookmark
from cdc.core.table import Table
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.log import ConflictError, DeltaLog
from cdc.sinks.lake.delta.schema import create_actions
from cdc.sinks.lake.delta.snapshot import Snapshot, txn_action
from cdc.sinks.lake.history.epochs import Epoch, OpenEpoch, find_put_back
from cdc.sinks.lake.history.facts import Gap, HistoryEnd, HistoryFacts, HistoryMoment, TrackedShape
from cdc.sinks.lake.history.kept import KeptHistory, find_end
from cdc.sinks.lake.history.shape import history_name, history_table
from cdc.sinks.lake.layout import HISTORY_MARK, SOURCE_PROPERTY, TABLE_PROPERTY, Lake
from cdc.sinks.lake.metadata.cuts import Cuts
from cdc.sinks.lake.table.load import FEATURES, PROPERTIES
from cdc.sinks.lake.table.writer import TableWriter


class CopiedTable(Protocol):
    """A table of the lake: its copy's bookmark, and the offset of the last END that was applied to it."""

    @property
    def writer(self) -> TableWriter: ...
    @property
    def bookmark(self) -> Bookmark: ...
    @property
    def offset(self) -> int: ...
    @property
    def table(self) -> Table: ...


class EpochMaker:
    """Opens the epochs of a lake's histories, and begins new ones."""

    def __init__(self, lake: Lake, indexes: Path, cuts: Cuts) -> None:
        self._lake = lake
        self._indexes = indexes
        self._cuts = cuts

    def open(self, epoch: OpenEpoch) -> KeptHistory:
        """An epoch as a history that can be added to."""
        name = epoch.table.name
        index = self._indexes / layout.folder_name(name)
        writer = TableWriter(epoch.table, self._lake.table_storage(name), epoch.log, index)
        return KeptHistory(writer, epoch.facts, find_end(writer, epoch.facts.floor))

    def begin(self, table: CopiedTable, number: int, before: Epoch | None, at: HistoryMoment) -> KeptHistory:
        """Begin an epoch at this moment; `before`: the last one, if it is there."""
        ended = self.open(before.opened) if before and before.opened else None
        after = ended.end if ended else HistoryEnd()
        shape = TrackedShape.of(table.table, at)
        facts = HistoryFacts(table.table.name, number, after, (shape,))
        if number > 1:
            # of one that cannot be read now: somebody may put it back as it was
            last = str(history_name(table.table.name, number - 1))
            since = self.known_until(ended) if ended else self._last_named(last)
            facts = facts.with_gap(Gap(since, at))
        own = history_table(table.table, number)
        log = self._create(own, facts, table.bookmark)
        return self.open(OpenEpoch(log, own, facts))

    def known_until(self, history: KeptHistory) -> HistoryMoment:
        """The moment up to which a history has every change: the last cut that names it, or that of its last row."""
        name, log = str(history.writer.table.name), history.writer.log
        cut = self._cuts.find_last_with(name)
        if cut is None or find_put_back(log, name, cut):
            return history.end.moment
        return max(self._last_named(name), history.end.moment)

    def _last_named(self, name: str) -> HistoryMoment:
        """The moment of the last cut that names a table; the first moment of all without one."""
        cut = self._cuts.find_last_with(name)
        return HistoryMoment(cut.position.lsn, cut.committed_ms) if cut else HistoryMoment(0, 0)

    def _create(self, own: Table, facts: HistoryFacts, bookmark: Bookmark) -> DeltaLog:
        storage = self._lake.table_storage(own.name)
        storage.make_root()
        # before the log: it says what lies here when the log cannot be read
        storage.write(HISTORY_MARK, f"the history of {facts.of}\n".encode())
        source = {"system_identifier": bookmark.system_identifier, "timeline": bookmark.timeline}
        described = {TABLE_PROPERTY: json.dumps(own.as_json()), SOURCE_PROPERTY: json.dumps(source)}
        properties = {**PROPERTIES, **described, **facts.as_property()}
        log = DeltaLog(storage, Snapshot())
        actions = create_actions(str(own.name), arrow_schema(own), properties, FEATURES)
        try:
            log.commit([*actions, txn_action(self._lake.bookmark_id, bookmark.lsn)], "CREATE TABLE")
        except ConflictError:
            raise RefusedError(f"another writer has begun {own.name}", "stop the other `cdc follow`") from None
        return log
