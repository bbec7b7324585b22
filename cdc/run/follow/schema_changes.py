"""Schema changes as the lake's stream meets them: what one means is settled before what came behind it is applied."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cdc.columns.netting.changes import Changes, Op
from cdc.columns.netting.transactions import Ends
from cdc.core.errors import PreconditionError, TableLostError
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
from cdc.log.runs import RunReader
from connect.settings import SourceSettings
from connect.source.catalog import described
from connect.source.relation import Shape, read
from connect.source.schema_history import history_of
from sinks.lake.follower import DeltaFollower
from sinks.lake.metadata.stopped_tables import StoppedTable

GONE = "it was dropped or renamed"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """What a transaction wrote of a table: its shape, None where only its rows changed; `gone`, and then no shape."""

    shape: Shape | None
    gone: bool
    rewritten: bool


class SchemaChanges:
    """Reads the schema history for one lake, and has its follower go along as the policy says."""

    def __init__(self, follower: DeltaFollower, reader: RunReader, source: SourceSettings) -> None:
        self._follower = follower
        self._reader = reader
        self._source = source
        self._history = history_of(source)

    @property
    def table(self) -> str:
        """The table of the source that the history is in: a transaction that changes it is a run by itself."""
        return str(self._history.name)

    def take_in(self, run: Ends, start: Offsets) -> tuple[list[StoppedTable], Offsets]:
        """Go along with what a run of one transaction changed; gives the tables that this has stopped, and where
        reading goes on behind it."""
        end = run.last
        read = self._reader.read(run, [self._history], start)
        noted = read_history(read.batch.changes[self._history.name].changes, end.tx_id)
        found = {
            table.name: classify_change(table, noted[table.name], self._source)
            for table in self._follower.find_outdated(end.lsn)
            if table.name in noted
        }
        return self._gone_along(found, end.lsn), read.next_offsets

    def stop(self, reasons: Mapping[TableName, str]) -> list[StoppedTable]:
        """Stop tables whose schema has changed, to be copied again where their policy is to go along."""
        copied = [name for name in reasons if self._source.policy(name) is Policy.EVOLVE]
        return self._follower.stop(reasons, copy=copied)

    def _gone_along(self, found: Mapping[TableName, SchemaChange], lsn: Lsn) -> list[StoppedTable]:
        reasons: dict[TableName, str] = {}
        going = {table.name for table in self._follower.tables()}
        for name, change in found.items():
            match change:
                case Widened(table, told):
                    if self._source.policy(name) is Policy.STOP:
                        reasons[name] = told
                    elif name in going:
                        reasons |= self._widened(table, lsn, told)
                    else:
                        # it stopped at a message, which the capture may have read by this later schema
                        reasons[name] = told
                case Altered(told):
                    reasons[name] = told
                case SameShape():
                    pass
        return self.stop({name: f"its schema has changed: {told}" for name, told in reasons.items()})

    def _widened(self, table: Table, lsn: Lsn, told: str) -> dict[TableName, str]:
        """Widen a table; gives the reason to stop it where it cannot be written to any more."""
        try:
            self._follower.add_columns(table, lsn)
        except TableLostError as lost:
            return {table.name: f"{told}; {lost.why}"}
        return {}


def read_history(changes: Changes, tx_id: int) -> dict[TableName, list[HistoryEntry]]:
    """What a transaction's changes of the history say of each table, in their order."""
    found = defaultdict[TableName, list[HistoryEntry]](list)
    for at in np.argsort(changes.total_order, kind="stable").tolist():
        gone = bool(changes.op[at] == Op.DELETE)
        row = (changes.key_columns if gone else changes.rows).slice(at, 1).to_pylist()[0]
        shape = None if gone or not row["shape"] else read(row["shape"])
        found[TableName(row["schema"], row["table"])].append(
            HistoryEntry(shape, gone, not gone and row["rewritten_by"] == tx_id)
        )
    return dict(found)


def classify_change(followed: Table, noted: Sequence[HistoryEntry], source: SourceSettings) -> SchemaChange:
    """What it means for who follows the table.

    Every shape counts, the last one and those before it in the transaction: rows may have been changed in between,
    under names and types that they do not have any more.
    """
    table, told = followed, list[str]()
    for each in noted:
        match _classify_entry(table, each, source):
            case Altered(why):
                # what is noted of rows comes before what is noted of columns, which says more
                return Altered((why == REWRITTEN and ", ".join(_describe_differences(followed, noted, source))) or why)
            case Widened(wider, came):
                table = wider
                told.append(came)
            case SameShape():
                pass
    return Widened(table, ", ".join(told)) if told else SameShape()


def _describe_differences(followed: Table, noted: Sequence[HistoryEntry], source: SourceSettings) -> Sequence[str]:
    """How the table differs by the last shape that was noted of it."""
    shapes = [each.shape for each in noted if each.shape]
    now = _to_table(followed.name, shapes[-1], source) if shapes else followed
    return describe_differences(followed, now) if isinstance(now, Table) else ()


def _classify_entry(followed: Table, noted: HistoryEntry, source: SourceSettings) -> SchemaChange:
    if noted.gone:
        return Altered(GONE)
    if noted.shape is None:
        return Altered(REWRITTEN) if noted.rewritten else SameShape()
    now = _to_table(followed.name, noted.shape, source)
    if not isinstance(now, Table):
        return Altered(now[0].what)
    taken_out = noted.shape.publications is not None and source.publication not in noted.shape.publications
    if noted.rewritten and taken_out:
        return Altered(f"publication {source.publication} does not send all of its changes")
    if noted.rewritten and (noted.shape.leaves or noted.shape.within) and not describe_differences(followed, now):
        return Altered("a partition with rows came or went, or was emptied or rewritten")
    filled = [column.name for column in noted.shape.columns if column.fills_old_rows]
    return diff_tables(followed, now, filled=filled, rewritten=noted.rewritten)


def _to_table(name: TableName, shape: Shape, source: SourceSettings) -> Table | list[PreconditionError]:
    return described(name, shape, source.choices)
