"""The two commands of the README, as a newcomer runs them: the demo, and the tests with all their checks."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.goal import OURS, Goal, Limit, Readings, Scale, Sizes
from tests.bench.goals.measures import CPU, MEMORY, SECONDS, taken
from tests.bench.ground import Ground
from tests.bench.world.jobs import ROOT, cdc_command, run


@dataclass(frozen=True, slots=True)
class DemoStage:
    """An empty folder for every run; the demo proves its contents itself."""

    ground: Ground

    def run(self, side: str) -> Readings:
        folder = self.ground.folder / "demo"
        command = cdc_command(folder / "cdc.yaml", "demo", "--json", "--down")
        try:
            with self.ground.meter.window() as window:
                run(self.ground.meter, command, folder)
        finally:
            run(self.ground.meter, cdc_command(folder / "cdc.yaml", "down", "--wipe", "--yes"), folder)
        return Readings(taken(window.usage), window.usage)

    def differences(self, side: str) -> list[str]:
        return []


@dataclass(frozen=True, slots=True)
class ChecksStage:
    """A clean clone for every run, of what is committed."""

    ground: Ground

    def run(self, side: str) -> Readings:
        folder = self.ground.folder / "clone"
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        with self.ground.meter.window() as window:
            run(self.ground.meter, [str(folder / ".ci" / "run")], folder)
        return Readings(taken(window.usage), window.usage)

    def differences(self, side: str) -> list[str]:
        return []


@contextmanager
def demo_stage(ground: Ground, sizes: Sizes) -> Iterator[DemoStage]:
    """The demo brings its own parts."""
    yield DemoStage(ground)


@contextmanager
def checks_stage(ground: Ground, sizes: Sizes) -> Iterator[ChecksStage]:
    """The tests bring their own parts."""
    yield ChecksStage(ground)


DEMO = Goal(
    "demo",
    "`cdc demo` after pip, with a warm cache",
    "≤ 120 s",
    (OURS,),
    (SECONDS, CPU, MEMORY),
    (Limit("seconds", 120.0),),
    {Scale.SMALL: {}, Scale.FULL: {}},
    demo_stage,
)
CHECKS = Goal(
    "ci",
    "`.ci/run` in a clean clone, with a warm cache",
    "≤ 15 min",
    (OURS,),
    (SECONDS, CPU, MEMORY),
    (Limit("seconds", 900.0),),
    {Scale.SMALL: {}, Scale.FULL: {}},
    checks_stage,
    only_named=True,
)
