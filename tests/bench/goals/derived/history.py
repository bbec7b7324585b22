"""What keeping every version adds to a batch of random keys."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from tests.bench.goal import Goal, Limit, Readings, Scale, Sizes
from tests.bench.goals.keys import APPLY
from tests.bench.goals.lane import LakeLane, compared, opened
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, taken
from tests.bench.ground import Ground
from tests.bench.world.contents import delta_rows, differences, in_arrow, in_postgres
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.source import Source
from tests.bench.world.visible import newest_cut

ON, OFF = "history on", "history off"
TABLES = {ON: "kept", OFF: "plain"}
_NEWEST = (
    "(SELECT *, row_number() OVER (PARTITION BY id ORDER BY _sequence DESC) AS age FROM rows)"
    " WHERE age = 1 AND _change NOT IN ('delete', 'truncate')"
)
"""What goes on, by the history."""


@dataclass(frozen=True, slots=True)
class HistoryStage:
    """Two tables of the same size in one pipeline, of which one has a history; a run writes to one of them."""

    source: Source
    pipeline: Pipeline
    sizes: Sizes

    def run(self, side: str) -> Readings:
        table, applied = TABLES[side], list[float]()
        with opened(LakeLane(self.pipeline), self.source, self.pipeline, [table]) as lane:
            for _ in range(self.sizes["warm"]):
                lane.wait(self._write(table))
            with self.pipeline.meter.window() as window:
                for _ in range(self.sizes["batches"]):
                    end, seen = lane.wait(self._write(table))
                    applied.append(seen - end.appended)
        return Readings({"apply": median(applied), **taken(window.usage)}, window.usage)

    def _write(self, table: str) -> int:
        return self.source.batch(table, self.sizes["rows"], self.sizes["changes"]).xid

    def differences(self, side: str) -> list[str]:
        table = TABLES[side]
        found = compared(self.source, LakeLane(self.pipeline), [table])
        if side == OFF:
            return found
        name = f"{table}_history"
        version = newest_cut(self.pipeline.cuts)[f"public.{name}"]
        newest = in_arrow(delta_rows(self.pipeline.folder(name), version, _NEWEST))
        with self.source.connection() as connection:
            return found + differences(name, in_postgres(connection, table), newest)


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[HistoryStage]:
    """Both tables, followed."""
    with ground.parts() as parts:
        source = ground.source(parts, "history", dict.fromkeys(TABLES.values(), sizes["rows"]))
        settings = {"history": [f"public.{TABLES[ON]}"]}
        pipeline = ground.pipeline(source, list(TABLES.values()), settings=settings)
        pipeline.bootstrap()
        yield HistoryStage(source, pipeline, sizes)


HISTORY = Goal(
    "history",
    "A batch of random keys: with a history and without",
    "≤ 1.3 times the batch",
    (ON, OFF),
    (APPLY, CPU, JOB_CPU, MEMORY),
    (Limit("apply", 1.3, side=ON, per=OFF),),
    {
        Scale.SMALL: {"rows": 20_000, "changes": 1_000, "batches": 5, "warm": 2},
        Scale.FULL: {"rows": 1_000_000, "changes": 10_000, "batches": 20, "warm": 5},
    },
    stage,
    ratios=((ON, OFF),),
)
