"""The lake's stream over a log in memory: what happens to it is what a test says."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import repeat
from typing import ClassVar, cast

import pytest
from pydantic import SecretStr

from cdc.columns.netting.changes import Messages
from cdc.columns.netting.ends import Ends, to_columns
from cdc.connect.settings import SourceSettings
from cdc.connect.source.heartbeat import digest_of, heartbeat_table
from cdc.core.position import Bookmark, LogStart, Lsn, Offsets, Position
from cdc.core.table import Table, TableName
from cdc.core.transaction import TransactionEnd
from cdc.log.clients.reader import Reader
from cdc.log.clients.standing_consumer import StandingConsumer
from cdc.log.end_reader import EndReader
from cdc.log.run_reader import NOTHING_APPLIED, ReadRun, RunReader
from cdc.log.settings import LogSettings
from cdc.run.copy.resync_queue import ResyncQueue
from cdc.run.follow.lake import lake_stream, table_joiner
from cdc.run.follow.lake.lake_stream import LakeStream
from cdc.run.follow.lake.lake_stream_parts import LakeStreamConfig, LakeStreamHooks, Readers
from cdc.run.follow.lake.large_runs import LargeRunReader
from cdc.run.follow.lake.run_cuts import RunCuts
from cdc.run.follow.lake.schema_changes import SchemaChanges
from cdc.run.follow.step_size import StepBounds
from cdc.run.follow.stop_reports import StopReports
from cdc.run.follow.stop_requests import StopRequests
from cdc.run.health.heartbeat_chain import HeartbeatChain
from cdc.run.repair_requests import RepairRequests, TableRequests
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.metadata.stopped_tables import StoppedTable
from cdc.sinks.lake.settings import DeltaSettings
from tests.support.debezium import PLACEHOLDER
from tests.support.lake.places import PlacedLake
from tests.support.lake.tables import write_copy
from tests.support.model import CommitOrder, Insert, Row
from tests.unit.log.log_in_memory import LogInMemory, inserts, one_by_one, table

OLD, NEW = table("old"), table("new")
SOURCE = SourceSettings(host="nowhere", dbname="d", user="u", password=SecretStr("p"), tables=["public.old"])
TRANSACTIONS = {110: OLD, 120: OLD, 130: NEW, 140: OLD, 150: NEW, 160: OLD}
"""Each inserts a row; its END's offset, its id and its LSN are the number."""


NO_BEATS: Mapping[int, str | None] = {}
BEATS = heartbeat_table(SOURCE)


def write_beats(marks: Mapping[int, str | None]) -> list[Messages]:
    """The messages of a whole chain of heartbeats."""
    changes, previous = list[Insert](), None
    for number, mark in marks.items():
        text = json.dumps({"at": str(number), "mark": mark, "slot": None, "previous": previous})
        changes.append(Insert(BEATS.name, CommitOrder(number, 1), ("p",), {"pipeline": "p", "beat": text}))
        previous = digest_of(text)
    return one_by_one(BEATS, changes)


class NoChanges:
    """A schema that stays as it is."""

    table = "cdc.shapes"

    def apply_run(self, run: Ends, start: Offsets) -> None:
        raise AssertionError("no table was altered")

    def stop(self, reasons: Mapping[TableName, str], copy: object = ()) -> list[StoppedTable]:
        return []


class NoEnds:
    """Runs are given to the stream as they are."""

    def begin(self, position: Position) -> None:
        pass


def ends(*transactions: int) -> Ends:
    return to_columns(
        [TransactionEnd(n, n, Lsn(n), 0, {str(TRANSACTIONS[n].name): 1}) for n in transactions if n in TRANSACTIONS]
    )


class FakeEndsAbove:
    """`EndsAbove` of the log in memory."""

    def __init__(self, reader: Reader, topic: str, lsn: Lsn, log_start: LogStart) -> None:
        self._lsn = lsn

    def up_to(self, offset: int) -> Ends:
        return ends(*(n for n in TRANSACTIONS if self._lsn < n <= offset))


def use_no_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream asks no broker for what the log in memory does not answer."""
    monkeypatch.setattr(lake_stream, "Reader", nullcontext)
    monkeypatch.setattr(table_joiner, "Reader", nullcontext)
    monkeypatch.setattr(lake_stream, "check_position", lambda *_: None)
    monkeypatch.setattr(table_joiner, "EndsAbove", FakeEndsAbove)


def follower_of(lake: PlacedLake) -> DeltaFollower:
    return DeltaFollower(DeltaSettings(kind="delta", path=lake.path), lake, lake.indexes / "index")


def copy(lake: PlacedLake, of: Table, lsn: int, end: int = 0) -> None:
    """A copy of what was there at this LSN, made by another hand, as `cdc bootstrap` or the renewal does.

    `end`: of the table's topic, before the copy's slot was made.
    """
    rows: list[Row] = [{"id": n, "was": "x"} for n, each in TRANSACTIONS.items() if each == of and n <= lsn]
    other = follower_of(lake)
    other.prepare([of])
    other.load(of, [write_copy(lake, of, rows)], Bookmark(Lsn(lsn), 4711, 1, {f"p.{of.name}": {0: end}}))


class Interrupted(RunReader):
    """`meanwhile`: what happens while the run that ends there is read."""

    meanwhile: ClassVar[dict[int, Callable[[], None]]] = {}

    def read(
        self,
        run: Ends,
        tables: Sequence[Table],
        start: Offsets,
        applied: Mapping[TableName, int] = NOTHING_APPLIED,
        most_bytes: int = sys.maxsize,
    ) -> ReadRun:
        self.meanwhile.pop(int(run.offset[-1]), lambda: None)()
        return super().read(run, tables, start, applied, most_bytes)


class Stream(LakeStream):
    """The lake's stream over a log in memory."""

    def __init__(
        self, lake: PlacedLake, reports: StopReports | None = None, beats: Mapping[int, str | None] = NO_BEATS
    ) -> None:
        """`beats`: the numbers of heartbeats, each with its mark."""
        by_table = {t: inserts(t, [n for n, each in TRANSACTIONS.items() if each == t]) for t in (OLD, NEW)}
        topics = by_table | ({BEATS: write_beats(beats)} if beats else {})
        log = LogInMemory({f"p.{t.name}": found for t, found in topics.items()}, repeat({}))
        small = Interrupted(cast("StandingConsumer", log), "p", PLACEHOLDER, 0.0)
        chain = HeartbeatChain(small, SOURCE, "p", Lsn(0), lambda lsn: True)
        self.follower, self.log, queue = follower_of(lake), log, ResyncQueue()
        reports = reports or StopReports(lambda text: None, queue)
        self.requests = RepairRequests(lake.indexes / "repairs")
        super().__init__(
            self.follower,
            Readers(small, cast("LargeRunReader", None), cast("EndReader", NoEnds()), chain),
            cast("SchemaChanges", NoChanges()),
            LakeStreamConfig(
                LogSettings(bootstrap="nowhere:9", prefix="p"), DeltaSettings(kind="delta", path=lake.path)
            ),
            LakeStreamHooks(
                lambda progress: True, lambda text: None, StopRequests(), queue, reports, TableRequests(self.requests)
            ),
        )

    def follow(self, *transactions: int) -> None:
        """Apply these, a run each."""
        self._cuts = RunCuts(self.follower, StepBounds(1, 1, 1), self._schema.table)
        self._apply(ends(*transactions))
        self._await_commit()

    def follow_in_one_run(self, *transactions: int) -> None:
        """Apply these in one batch."""
        self._cuts = RunCuts(self.follower, StepBounds(100, 1, 100), self._schema.table)
        self._apply(ends(*transactions))
        self._await_commit()


def copy_old_table(lake: PlacedLake) -> None:
    """The old table is copied and in the first cut."""
    follower = follower_of(lake)
    follower.prepare([OLD])
    copy(lake, OLD, 100)
    follower.first_cut(0)
