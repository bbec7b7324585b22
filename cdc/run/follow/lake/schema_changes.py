"""Schema changes in the lake's stream: each is classified and applied before the changes of rows behind it."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cdc.columns.netting.changes import Changes, Op
from cdc.columns.netting.ends import Ends
from cdc.connect.settings import SourceSettings
from cdc.connect.source.catalog import to_table
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.connect.source.relation import Shape, find_labels, parse_shape
from cdc.connect.source.schema_history import history_table
from cdc.core.counters import COUNTERS, SCHEMA_CHANGES
from cdc.core.errors import TableLostError
from cdc.core.fail_points import reach
from cdc.core.position import Lsn, Offsets
from cdc.core.schema_change import (
    REWRITTEN,
    Altered,
    Policy,
    SameShape,
    SchemaChange,
    Widened,
    describe_differences,
    diff_tables,
)
from cdc.core.table import Table, TableName
from cdc.core.table_state import ACTIVE
from cdc.log.run_reader import RunReader
from cdc.sinks.lake.apply.tables import LakeTable
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.metadata.stopped_tables import StoppedTable

DROPPED = "it was dropped or renamed"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One entry of the schema history, by one transaction, for one table.

    `shape`: the table as altered, None when only its rows were. `is_dropped`: the table is gone, and has no shape.
    `is_rewritten`: the transaction changed rows without a message for each.
    """

    shape: Shape | None
    is_dropped: bool
    is_rewritten: bool


@dataclass(frozen=True, slots=True)
class AppliedSchema:
    """What the schema changes of a run have done: the tables stopped, and the offsets where reading goes on.

    `lacks_beats`: the publication has left changes out, so heartbeats may be missing before this run.
    """

    stopped: Sequence[StoppedTable]
    next_offsets: Offsets
    lacks_beats: bool


class SchemaChanges:
    """Reads the schema history for one lake, and changes or stops its tables as their policies say."""

    def __init__(self, follower: DeltaFollower, reader: RunReader, source: SourceSettings) -> None:
        self._follower = follower
        self._reader = reader
        self._source = source
        self._history = history_table(source)

    @property
    def table(self) -> str:
        """The source table that holds the history. A transaction that changes it is a run of its own."""
        return str(self._history.name)

    def apply_run(self, run: Ends, start: Offsets) -> AppliedSchema:
        """Apply the schema changes of a run of one transaction."""
        end = run.last
        read = self._reader.read(run, [self._history], start)
        entries = read_entries(read.batch.changes[self._history.name].changes, end.tx_id)
        changes = {
            name: classify_change(table.table, entries[name], self._source)
            for name, table in self._follower.tables.all().items()
            # a copy made later, or a run that was repeated after a kill, has this change already
            if name in entries and table.lacks_schema(end.lsn)
        }
        stopped = self._apply_changes(changes, end.lsn)
        reach("schema.applied")
        beats = entries.get(heartbeat_table(self._source).name, ())
        lacks_beats = any(entry.shape and self._source.publication in entry.shape.moved for entry in beats)
        return AppliedSchema(stopped, read.next_offsets, lacks_beats)

    def stop(self, reasons: Mapping[TableName, str], copy: Collection[TableName] = ()) -> list[StoppedTable]:
        """Stop tables whose schema has changed; those with policy `evolve`, and `copy`, are to be copied again."""
        copied = [name for name in reasons if name in copy or self._source.policy(name) is Policy.EVOLVE]
        return self._follower.tables.stop(reasons, copy=copied)

    def _apply_changes(self, changes: Mapping[TableName, SchemaChange], lsn: Lsn) -> list[StoppedTable]:
        reasons: dict[TableName, str] = {}
        followed = self._follower.tables.select(*ACTIVE)
        for name, change in changes.items():
            match change:
                case Widened(table, difference):
                    COUNTERS.add(SCHEMA_CHANGES, "widened")
                    if self._source.policy(name) is Policy.STOP:
                        reasons[name] = difference
                    elif name in followed:
                        reasons |= _widen(followed[name], table, lsn, difference)
                    else:
                        # it stopped at a message that the capture may have decoded by this later schema
                        reasons[name] = difference
                case Altered(difference):
                    COUNTERS.add(SCHEMA_CHANGES, "altered")
                    reasons[name] = difference
                case SameShape():
                    pass
        return self.stop({name: f"its schema has changed: {reason}" for name, reason in reasons.items()})


def _widen(followed: LakeTable, table: Table, lsn: Lsn, difference: str) -> dict[TableName, str]:
    """Add the columns of `table`; returns the reason to stop it when the lake has lost the table."""
    try:
        followed.writer.add_columns(table, lsn)
    except TableLostError as lost:
        return {table.name: f"{difference}; {lost.why}"}
    return {}


def read_entries(changes: Changes, tx_id: int) -> dict[TableName, list[HistoryEntry]]:
    """The history's entries that this transaction wrote, per table, in their order."""
    entries = defaultdict[TableName, list[HistoryEntry]](list)
    # in the order of the transaction: a table may be altered several times in it
    for at in np.argsort(changes.number, kind="stable").tolist():
        is_dropped = bool(changes.op[at] == Op.DELETE)
        # of a deleted entry the log has the key only
        row = (changes.key_columns if is_dropped else changes.rows).slice(at, 1).to_pylist()[0]
        shape = None if is_dropped or not row["shape"] else parse_shape(row["shape"])
        entries[TableName(row["schema"], row["table"])].append(
            HistoryEntry(shape, is_dropped, not is_dropped and row["rewritten_by"] == tx_id)
        )
    return dict(entries)


def classify_change(followed: Table, entries: Sequence[HistoryEntry], source: SourceSettings) -> SchemaChange:
    """Classify a transaction's schema changes of one table: none, further columns, or a table to be copied again.

    Every shape in the transaction counts, not only the last: rows may have been written in between, with names and
    types that are gone at its end.
    """
    table, added = followed, list[str]()
    for entry in entries:
        match _classify_entry(table, entry, source):
            case Altered(why):
                # the entry of a rewrite comes before the one of its columns, and that one says more
                columns_differ = _describe_differences(followed, entries, source) if why == REWRITTEN else ()
                return Altered(", ".join(columns_differ) or why)
            case Widened(wider, columns):
                table = wider
                added.append(columns)
            case SameShape():
                pass
    return Widened(table, ", ".join(added)) if added else SameShape()


def _describe_differences(followed: Table, entries: Sequence[HistoryEntry], source: SourceSettings) -> Sequence[str]:
    """The differences between the followed table and its last shape in the history."""
    shapes = [entry.shape for entry in entries if entry.shape]
    now = to_table(followed.name, shapes[-1], source.choices) if shapes else followed
    return describe_differences(followed, now) if isinstance(now, Table) else ()


def _classify_entry(followed: Table, entry: HistoryEntry, source: SourceSettings) -> SchemaChange:
    if entry.is_dropped:
        return Altered(DROPPED)
    if entry.shape is None:
        return Altered(REWRITTEN) if entry.is_rewritten else SameShape()
    # as the catalog check would describe it, with the same choices of types
    now = to_table(followed.name, entry.shape, source.choices)
    if not isinstance(now, Table):
        return Altered(now[0].what)
    # of other pipelines' publications on the same source it may come and go
    is_moved = any(find_labels(source.publication, entry.shape.moved))
    is_whole, is_part = find_labels(source.publication, entry.shape.publications or ())
    if is_moved and not (is_whole or (is_part and (now.where or now.dropped))):
        return Altered(f"publication {source.publication} does not send all of its changes")
    if entry.is_rewritten and (entry.shape.leaves or entry.shape.within) and not describe_differences(followed, now):
        return Altered("a partition with rows came or went, or was emptied or rewritten")
    filled = [column.name for column in entry.shape.columns if column.fills_old_rows]
    return diff_tables(followed, now, filled=filled, rewritten=entry.is_rewritten or is_moved)
