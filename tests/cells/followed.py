"""What follows the pipeline of the cells: started as a cell needs it, and after a fault until all is well again."""

import re
from collections.abc import Sequence
from typing import Final

from cdc.core.errors import CdcError
from cdc.core.waiting import Deadline
from cdc.log.clients.topics import Admin
from cdc.torture.remedies import find_command
from tests.cells.cell import BY_PROCESS, VERB_PHASES, Cell
from tests.cells.followers import Process, Thread
from tests.cells.proof import Waited, await_all
from tests.cells.verbs import run_verb
from tests.cells.world import World
from tests.support.cdc_inprocess import problems

LIMIT_SECONDS: Final = 240.0
STRANGER: Final = re.compile(r"topic (\S+) is there already and is not this follower's .*, or delete it")
PATIENCE_SECONDS: Final = 20.0
"""After so long an operator to whom nothing was told looks at `cdc status`, and does what it says."""


class Followed:
    """Who follows now, if anybody does."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.job: Thread | Process | None = None
        self._heard = 0
        """The lines of the present one that the operator has read."""
        self.waited: Waited = {}
        """What the last wait took until each follower was there."""

    def start(self, cell: Cell, armed: str = "") -> Thread | Process:
        """Let it be followed as the cell needs it."""
        kind = Process if cell.kind in BY_PROCESS and cell.phase not in VERB_PHASES else Thread
        if self.job is not None and (not self.job.is_running or not isinstance(self.job, kind)):
            self.end()
        if self.job is None:
            self._heard = 0
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
        deadline = Deadline(LIMIT_SECONDS)
        while not deadline.is_past:
            job = self.start(cell)
            try:
                self._await_or_end(job)
            except CdcError as error:
                # one that ends just now says more than the one who waits for it
                lines = (
                    [job.end] if job.end else [*self._find_problems(), *([] if self._is_told(job) else [str(error)])]
                )
                self._heard = len(job.lines)
                told += [line for line in lines if line not in told]
                self.do_as_told(lines)
            else:
                return " | ".join(told)
        raise AssertionError(f"not well after {LIMIT_SECONDS:.0f} s: {told}")

    def _await_or_end(self, job: Thread | Process) -> None:
        """Wait for all followers. Raises CdcError when that is in vain, or it has ended."""
        if not job.is_running:
            raise CdcError(job.end or "it has ended", "start it again")
        self.waited = await_all(self._world, lambda: job.is_running and not self._is_told(job), PATIENCE_SECONDS)

    def _is_told(self, job: Thread | Process) -> bool:
        """Has it said since that somebody has to do something? Its log raises an alarm then."""
        return any(find_command(line) and "by itself" not in line for line in job.lines[self._heard :])

    def _find_problems(self) -> list[str]:
        return problems(self._world.pipeline)

    def do_as_told(self, lines: Sequence[str]) -> None:
        """Do the first thing that these lines tell to do; nothing where that is done by itself, or is to wait."""
        strangers = {found[1] for line in lines if (found := STRANGER.search(line))}
        if strangers:
            with Admin(self._world.pipeline.settings.log) as admin:
                admin.delete_wholly(sorted(strangers))
            return
        for line in lines:
            if (words := find_command(line)) and "by itself" not in line:
                self.end()
                run_verb(self._world, words)
                return

    def describe(self) -> str:
        """What `follow` has said last, and what `status` finds wrong."""
        lines = [] if self.job is None else self.job.lines[-12:]
        try:
            found = self._find_problems()
        except Exception as error:  # noqa: BLE001 - whatever it is, the cell's own failure is to be told
            found = [repr(error)]
        return f"\n  said: {lines}\n  status: {found}"
