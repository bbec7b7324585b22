"""How fast a backlog is applied, against how fast Debezium captured it in the same run; and the memory it takes."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.goal import OURS, STOCK, Goal, Limit, Measure, Readings, Scale, Sizes, Usage
from tests.bench.goals.lane import CATCH_UP_SECONDS, LakeLane, Lane, MergeLane, compared, opened
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, PER_SECOND, SECONDS, taken
from tests.bench.ground import Ground
from tests.bench.world import capture
from tests.bench.world.log import TransactionLog
from tests.bench.world.pipeline import PAUSABLE, Pipeline
from tests.bench.world.source import Source, Written
from tests.bench.world.stock import stock_of

TABLE = "orders"
TIMES = Measure("times", "times the rate at which Debezium captured it", "", more_is_better=True)
CAPTURED = Measure("captured", "captured a second, from the connector's start to the last END", "1/s", True)
SENT = Measure("sent", "captured a second, from the broker's first message to its last", "1/s", True)
CAPTURE_CPU = Measure("capture_cpu", "CPU of all processes while it was captured", "s")


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits in the log, what its capture took, and how long the broker was sent it."""

    written: Written
    usage: Usage
    sent_seconds: float


@dataclass(frozen=True, slots=True)
class BacklogStage:
    """Each run makes a backlog of its own while its side stands still, and then lets it go on."""

    source: Source
    pipeline: Pipeline
    lanes: Mapping[str, Lane]
    sizes: Sizes

    def run(self, side: str) -> Readings:
        return self.backlog(self.lanes[side], self.sizes["transactions"])

    def differences(self, side: str) -> list[str]:
        return compared(self.source, self.lanes[side], [TABLE])

    def backlog(self, lane: Lane, transactions: int) -> Readings:
        """Warm a side, make it stand still, capture a backlog, and measure how it is applied."""
        with opened(lane, self.source, self.pipeline, [TABLE]) as running:
            running.wait(self.source.batch(TABLE, self.sizes["rows"], self.sizes["warm"]).xid)
            with running.job.paused():
                backlog = self._captured(running.tail, transactions)
            with self.pipeline.meter.window() as window:
                running.wait(backlog.written.xid)
        changes = backlog.written.changes
        rate, captured = changes / window.usage.seconds, changes / backlog.usage.seconds
        values = {"rate": rate, "times": rate / captured, "captured": captured, "sent": changes / backlog.sent_seconds}
        values["capture_cpu"] = backlog.usage.cpu_seconds
        return Readings(values | taken(window.usage), window.usage)

    def _captured(self, tail: TransactionLog, transactions: int) -> Backlog:
        """Write with no capture, then let it go."""
        with capture.stopped(self.pipeline):
            before = tail.end()
            written = self._write(transactions)
        with self.pipeline.meter.window() as window:
            end = tail.wait_for(written.xid, CATCH_UP_SECONDS, skip=True)
        sent = end.appended - tail.first_after(before, CATCH_UP_SECONDS)
        return Backlog(written, window.usage, max(sent, 0.001))

    def _write(self, transactions: int) -> Written:
        rows, changes = self.sizes["rows"], self.sizes["changes"]
        if changes == 1:
            return self.source.burst(TABLE, rows, transactions)
        return self.source.batches(TABLE, rows, transactions, changes)


@dataclass(frozen=True, slots=True)
class MemoryStage(BacklogStage):
    """The same of ours alone, with a short and a long backlog for its sides."""

    def run(self, side: str) -> Readings:
        times = self.sizes["longer"] if side == LONG else 1
        return self.backlog(self.lanes[side], self.sizes["transactions"] * times)


SHORT, LONG = "short", "long"


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[BacklogStage]:
    """One table, one pipeline, and a stock copy."""
    with _bootstrapped(ground, sizes) as (source, pipeline):
        stock = stock_of(pipeline, source)
        stock.copy({TABLE: sizes["rows"]})
        yield BacklogStage(source, pipeline, {OURS: LakeLane(pipeline), STOCK: MergeLane(stock, [TABLE])}, sizes)


@contextmanager
def memory_stage(ground: Ground, sizes: Sizes) -> Iterator[MemoryStage]:
    """One table and one pipeline."""
    with _bootstrapped(ground, sizes) as (source, pipeline):
        yield MemoryStage(source, pipeline, dict.fromkeys((SHORT, LONG), LakeLane(pipeline)), sizes)


@contextmanager
def _bootstrapped(ground: Ground, sizes: Sizes) -> Iterator[tuple[Source, Pipeline]]:
    with ground.parts() as parts:
        source = ground.source(parts, "backlog", {TABLE: sizes["rows"]})
        pipeline = ground.pipeline(source, [TABLE], settings={"spark": {"conf": PAUSABLE}})
        pipeline.bootstrap()
        yield source, pipeline


SINGLE_ROWS = Goal(
    "backlog-single",
    "Backlog of single-row transactions, against the rate at which Debezium captured it",
    "1 M: ≥ twice Debezium, ≥ 50,000 changes a second",
    (OURS, STOCK),
    (PER_SECOND, TIMES, CAPTURED, SENT, SECONDS, CPU, JOB_CPU, CAPTURE_CPU, MEMORY),
    (Limit("rate", 50_000), Limit("times", 2.0)),
    {
        Scale.SMALL: {"rows": 50_000, "transactions": 50_000, "changes": 1, "warm": 5_000},
        Scale.FULL: {"rows": 1_000_000, "transactions": 1_000_000, "changes": 1, "warm": 100_000},
    },
    stage,
)
LARGE_TRANSACTIONS = dataclasses.replace(
    SINGLE_ROWS,
    name="backlog-large",
    title="Backlog of 100 large transactions, against the rate at which Debezium captured it",
    asked="1 M changes in 100 transactions: ≥ twice Debezium, ≥ 100,000 changes a second",
    limits=(Limit("rate", 100_000), Limit("times", 2.0)),
    sizes={
        Scale.SMALL: {"rows": 50_000, "transactions": 100, "changes": 500, "warm": 5_000},
        Scale.FULL: {"rows": 1_000_000, "transactions": 100, "changes": 10_000, "warm": 100_000},
    },
)
FLAT_MEMORY = Goal(
    "backlog-memory",
    "Peak memory while a backlog is applied, of a long one against a short one",
    "flat in the length of the backlog",
    (SHORT, LONG),
    (MEMORY, PER_SECOND, SECONDS, JOB_CPU),
    (Limit("memory", 1.2, side=LONG, per=SHORT),),
    {
        Scale.SMALL: {"rows": 50_000, "transactions": 10_000, "changes": 1, "longer": 4, "warm": 2_000},
        Scale.FULL: {"rows": 1_000_000, "transactions": 1_000_000, "changes": 1, "longer": 3, "warm": 100_000},
    },
    memory_stage,
    ratios=((LONG, SHORT),),
)
