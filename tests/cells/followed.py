"""What follows the pipeline of the cells: started as a cell needs it, and after a fault until all is well again."""

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import SparkSession

from cdc.core.errors import CdcError
from tests.cells.cell import BY_PROCESS, VERB_PHASES, Cell
from tests.cells.followers import Process, Thread
from tests.cells.proof import Waited, await_all
from tests.cells.world import World
from tests.support.cdc_inprocess import bootstrap, problems, recapture_all
from tests.support.parts.pipelines import Pipeline

MOST_REMEDIES: Final = 4
REMEDIES: Final[Mapping[str, Callable[[Pipeline, SparkSession], object]]] = {
    "cdc recapture": recapture_all,
    "cdc bootstrap": bootstrap,
}
"""Verbs that a line may tell to do, the one that helps against more first."""


class Followed:
    """Who follows now, if anybody does."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.job: Thread | Process | None = None
        self.waited: Waited = {}
        """What the last wait took until each follower was there."""

    def start(self, cell: Cell, armed: str = "") -> Thread | Process:
        """Let it be followed as the cell needs it."""
        kind = Process if cell.kind in BY_PROCESS and cell.phase not in VERB_PHASES else Thread
        if self.job is not None and (not self.job.is_running or not isinstance(self.job, kind)):
            self.end()
        if self.job is None:
            self.job = Process(self._world, armed=armed) if kind is Process else Thread(self._world, armed)
            if not armed:
                self.job.await_start()
        return self.job

    def end(self) -> None:
        """Let nobody follow."""
        if self.job is not None:
            self.job.stop()
        self.job = None

    def recover(self, cell: Cell) -> str:
        """Start what has ended, do what is told, until every follower has what is committed; returns what was told."""
        told = list[str]()
        if self.job is not None and cell.kind not in BY_PROCESS and not self.job.is_running:
            told.append(self.job.end)
        for _ in range(MOST_REMEDIES):
            job = self.start(cell)
            try:
                self._await_or_end(job)
            except CdcError as error:
                # one that ends just now says more than the one who waits for it
                line = job.end or str(error)
                told.append(line)
                self.do_as_told(line)
            else:
                return " | ".join(told)
        raise AssertionError(f"after {MOST_REMEDIES} remedies: {told}")

    def _await_or_end(self, job: Thread | Process) -> None:
        """Wait for all followers. Raises CdcError when that is in vain, or it has ended."""
        if not job.is_running:
            raise CdcError(job.end or "it has ended", "start it again")
        self.waited = await_all(self._world, lambda: job.is_running)

    def do_as_told(self, line: str) -> None:
        """Do what a line says that nobody does by itself."""
        if "by itself" in line:
            return
        for words, verb in REMEDIES.items():
            if words in line:
                self.end()
                verb(self._world.pipeline, self._world.spark)
                return

    def describe(self) -> str:
        """What `follow` has said last, and what `status` finds wrong."""
        lines = [] if self.job is None else self.job.lines[-12:]
        try:
            found = problems(self._world.pipeline)
        except Exception as error:  # noqa: BLE001 - whatever it is, the cell's own failure is to be told
            found = [repr(error)]
        return f"\n  said: {lines}\n  status: {found}"
