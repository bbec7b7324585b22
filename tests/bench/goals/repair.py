"""What it takes to put spoilt keys of a large table right, in every follower and a view, while somebody writes."""

import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from cdc.columns.types.arrow_types import arrow_schema
from cdc.config.file import load
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline as OpenedPipeline
from cdc.sinks.lake.feed.keyed_rows import find_rows, key_schema
from cdc.sinks.lake.table.writer import TableWriter
from tests.bench.goal import OURS, Failed, Goal, Limit, Readings, Scale, Sizes
from tests.bench.goals.lane import LakeLane, opened
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, SECONDS, taken
from tests.bench.ground import Ground
from tests.bench.world.pipeline import LAKE, Pipeline
from tests.bench.world.source import FRESH_KEYS, Source
from tests.support.spoil import Spoil, spoil_index, spoil_lake, spoil_latest, spoil_view

TABLE, VIEW = TableName("public", "orders"), TableName("bench", "doubled")
FOLLOWERS = (LAKE, "search", "latest", "views")
NAMED, AGAIN = f"{OURS}, keys named", "cdc bootstrap --again"
HOT = 2_000
"""The writer changes keys below this one, of which half the spoilt ones are."""
SETTINGS = {
    "views": {str(VIEW): {"key": ["id"], "sql": "SELECT id, seq, writer, amount * 2 AS twice FROM public.orders"}},
    "followers": {"latest": {"tables": [str(TABLE)]}, "search": {"tables": [str(TABLE)]}},
}


@dataclass(frozen=True, slots=True)
class RepairStage:
    """Followers and a view that are followed while a writer goes on, of which rows are spoilt in each run."""

    source: Source
    pipeline: Pipeline
    sizes: Sizes
    choice: random.Random = field(default_factory=lambda: random.Random(11))

    def run(self, side: str) -> Readings:
        with opened(LakeLane(self.pipeline, FOLLOWERS), self.source, self.pipeline, [TABLE.table]):
            keys = self._spoil()
            if side != AGAIN:
                return self._measure(side, keys)
        # refused beside `cdc follow`
        return self._measure(side, keys)

    def _measure(self, side: str, keys: Sequence[int]) -> Readings:
        with ThreadPoolExecutor(1) as writer:
            # to the end of the window: the same keys, and others
            writing = writer.submit(self._write)
            with self.pipeline.meter.window() as window:
                self._mend(side, keys)
            writing.result()
        return Readings(taken(window.usage), window.usage)

    def _write(self) -> None:
        self.source.pace(TABLE.table, HOT, self.sizes["rate"], self.sizes["seconds"], 1)

    def _mend(self, side: str, keys: Sequence[int]) -> None:
        if side == AGAIN:
            self.pipeline.verb("bootstrap", "--again", str(TABLE))
            return
        named = [f"--table={TABLE}", *(f"--key={key}" for key in keys)] if side == NAMED else []
        found = self.pipeline.verb("repair", *named, "--json").json()
        if not found["equal"]:
            raise Failed(f"keys differ still: {found}")

    def differences(self, side: str) -> list[str]:
        with opened(LakeLane(self.pipeline, FOLLOWERS), self.source, self.pipeline, [TABLE.table]):
            # a view's own rows are spoilt, which its keys alone would name
            words = ["repair"] if side == NAMED else ["verify", "--wait=120"]
            report = self.pipeline.verb(*words, "--json").json()
        return [] if report["equal"] else [str(report)]

    def _spoil(self) -> list[int]:
        """A quarter of the keys in each of four places, of which a third each is changed, taken away and added."""
        each = self.sizes["keys"] // 4
        half = self.sizes["keys"] // 2
        keys = self.choice.sample(range(1, HOT), half) + self.choice.sample(range(HOT, self.sizes["rows"]), half)
        self.choice.shuffle(keys)
        with OpenedPipeline(load(self.pipeline.config, dict(os.environ))) as own:
            found = own.lake_follower.tables.find(TABLE)
            assert found is not None
            writer, parts = found.writer, [keys[at : at + each] for at in range(0, 4 * each, each)]
            spoils = [_to_spoil(writer, part) for part in parts[:3]]
            spoil_lake(own, TABLE, spoils[0])
            spoil_index(own, "search", writer.table, spoils[1])
            spoil_latest(own, writer.table, spoils[2])
            [view] = [own.views.find(view) for view in own.settings.view_definitions]
            assert view is not None
            spoil_view(own, VIEW, _to_spoil(view.writer, parts[3]))
        return [key for part in parts[:3] for key in (*part, *map(_to_added, part))]


def _to_added(key: int) -> int:
    """A key that no row has."""
    return key + 2 * FRESH_KEYS


def _to_spoil(writer: TableWriter, keys: Sequence[int]) -> Spoil:
    table: Table = writer.table
    wanted = pa.table({"id": pa.array(keys, arrow_schema(table).field("id").type)}).cast(key_schema(table))
    rows = find_rows(writer.storage, writer.snapshot, table, wanted).to_pylist()
    third = len(rows) // 3
    changed = [{**row, "seq": -1} for row in rows[:third]]
    added = [{**row, "id": _to_added(row["id"])} for row in rows[third : 2 * third]]
    return Spoil([*changed, *added], [{"id": row["id"]} for row in rows[2 * third :]])


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[RepairStage]:
    """One table in all followers, and a view of it."""
    with ground.parts() as parts:
        source = ground.source(parts, "repair", {TABLE.table: sizes["rows"]})
        pipeline = ground.pipeline(source, [TABLE.table], (LAKE, "search", "latest"), settings=SETTINGS)
        pipeline.bootstrap()
        yield RepairStage(source, pipeline, sizes)


REPAIR = Goal(
    "repair",
    "`cdc repair` of spoilt keys in all followers and a view, while somebody writes",
    "1 M rows, 100 keys: named 30 s",
    (OURS, NAMED, AGAIN),
    (SECONDS, CPU, JOB_CPU, MEMORY),
    (Limit("seconds", 30.0, side=NAMED), Limit("seconds", 1.0, side=NAMED, per=AGAIN)),
    {
        Scale.SMALL: {"rows": 50_000, "keys": 100, "rate": 20, "seconds": 40},
        Scale.FULL: {"rows": 1_000_000, "keys": 100, "rate": 50, "seconds": 120},
    },
    stage,
)
