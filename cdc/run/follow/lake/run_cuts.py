"""Cuts ENDs into the runs of the lake's stream: as large as its steps are fast, and as a process can hold."""

import sys
from typing import Final

from cdc.columns.netting.ends import Ends
from cdc.columns.netting.runs import cut_run
from cdc.core.table_state import ACTIVE
from cdc.run.follow.lake.large_runs import needs_driver
from cdc.run.follow.step_size import MOST_RUN_BYTES, StepBounds, StepSize
from cdc.sinks.lake.follower import DeltaFollower

GROWTH: Final = 8
"""A run that could be held lets the next one have an eighth more: of runs that are cut to size, few are read twice."""


class RunCuts:
    """Cuts one run after another; `alone`: the table whose transactions are runs of their own."""

    def __init__(self, lake: DeltaFollower, bounds: StepBounds, alone: str) -> None:
        self.step = StepSize(bounds)
        self._lake = lake
        self._alone = alone
        self._fitting = bounds.most
        self._refused: tuple[int, int] | None = None

    def cut(self, ends: Ends, furthest: int) -> Ends:
        """Cut a run from the front of ENDs; it reaches the END at offset `furthest`."""
        few = self.step.bounds.first
        # nobody asks for the tables of so few changes: the usual batch has fewer
        slow = self._find_slow() if ends.changes.sum() > few else []
        return cut_run(ends, min(self.step.most, self._fitting), furthest, self._alone, slow, few)

    def _find_slow(self) -> list[str]:
        tables = self._lake.tables.select(*ACTIVE)
        return [str(name) for name, table in tables.items() if needs_driver(self._lake, table)]

    def most_bytes(self, run: Ends) -> int:
        """The bytes that a process may read of this run at once: any number, if it was cut as short as it can be."""
        return sys.maxsize if self._refused == _borders(run) else MOST_RUN_BYTES

    def shrink(self, run: Ends) -> None:
        """This run was too many bytes: the next cut is shorter, if that is possible."""
        self._refused = _borders(run)
        self._fitting = min(self._fitting, max(int(run.changes.sum()) // 2, 1))

    def grow(self) -> None:
        """A run was read."""
        self._refused = None
        self._fitting = min(self._fitting + self._fitting // GROWTH + 1, self.step.bounds.most)


def _borders(run: Ends) -> tuple[int, int]:
    return int(run.offset[0]), int(run.offset[-1])
