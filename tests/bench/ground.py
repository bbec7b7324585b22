"""What every goal stands on: a scratch folder, the meter, the settings of this run, and the parts when asked for."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.meter.meter import Meter
from tests.bench.world.parts import Parts, parts_up
from tests.bench.world.pipeline import LAKE, Pipeline, Settings, configured, merge
from tests.bench.world.source import Source


@dataclass(frozen=True, slots=True)
class Ground:
    """A goal's own ground; everything in `folder` is gone when the goal has ended."""

    folder: Path
    meter: Meter
    say: Callable[[str], None]
    settings: Settings = field(default_factory=dict)
    """Settings of `cdc.yaml` that this run tries out, for every pipeline of ours; they win."""

    @contextmanager
    def parts(self) -> Iterator[Parts]:
        """All parts, fresh."""
        self.say("parts: starting")
        with parts_up(self.meter, self.folder) as parts:
            yield parts

    def source(self, parts: Parts, database: str, tables: Mapping[str, int]) -> Source:
        """A database with these tables (name to rows)."""
        self.say(f"{database}: {sum(tables.values()):,} rows in {len(tables)} tables")
        source = Source.made(parts, database)
        for table, rows in tables.items():
            source.table(table, rows)
        return source

    def pipeline(
        self,
        source: Source,
        tables: Sequence[str],
        followers: Sequence[str] = (LAKE,),
        name: str | None = None,
        settings: Settings | None = None,
    ) -> Pipeline:
        """A pipeline on a source, configured and not bootstrapped yet."""
        pipeline = Pipeline(self.meter, source.parts, name or source.database, source.database, tables)
        own: dict[str, Any] = copy.deepcopy(dict(settings or {}))
        merge(own, self.settings)
        return configured(pipeline, followers, own)
