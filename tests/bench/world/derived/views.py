"""Where a pipeline's views and their cuts are, and the jobs that compute a view whole, again and again."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.bench.world import versions
from tests.bench.world.derived.cards import SCHEMA
from tests.bench.world.ledger import Commit
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.visible import Cut, CutSight
from tests.bench.world.watching import Watching

VIEWS = "views"
"""The stream of the views, as `cdc follow` names it."""


def view_cuts(pipeline: Pipeline) -> Path:
    """The table of the views' cuts."""
    return pipeline.lake / "_cdc" / "views" / "cuts"


def view_folder(pipeline: Pipeline, view: str) -> Path:
    """A view's own table."""
    return pipeline.lake / SCHEMA / view


def index_folder(pipeline: Pipeline) -> Path:
    """Where the secondary indexes of the views are, and the copies of rows beside them."""
    state = str(YAML().load(pipeline.config)["pipeline"].get("state", ".cdc"))
    return pipeline.config.parent / state / "index" / pipeline.name / "views" / "by column"


@dataclass(slots=True)
class RefreshSight:
    """A loop of refreshes in Postgres, as its job tells of them: a line each, with when it began and when it ended.

    A refresh sees what was committed before it began.
    """

    told: Path
    watching: Watching = field(default_factory=Watching)

    def seen_at(self, commits: Sequence[Commit]) -> list[float]:
        refreshes = self.refreshes()
        return [next((end for began, end in refreshes if began >= commit.at), math.nan) for commit in commits]

    def refreshes(self) -> list[tuple[float, float]]:
        """When each refresh that has ended began, and when it ended."""
        # the last line may be half written
        lines: list[dict[str, Any]] = [json.loads(line) for line in self.told.read_text().split("\n")[:-1]]
        return [(line["began"], line["ended"]) for line in lines if "ended" in line]


@contextmanager
def computed_cuts(folder: Path) -> Iterator[CutSight]:
    """Watch a table that is computed whole from one cut after another, whose commits say in `userMetadata` which."""
    sight = CutSight()

    def look(folder: Path, at: float, actions: versions.Actions) -> None:
        for action in actions:
            told = action.get("commitInfo", {}).get("userMetadata")
            if told is not None:
                cut = json.loads(told)
                sight.cuts.append(Cut(at, cut["lsn"], cut["end_offset"]))

    with versions.watched([folder], look) as sight.watching:
        yield sight
