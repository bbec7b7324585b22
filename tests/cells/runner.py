"""Goes through cells on one pipeline, which is made anew when a cell has harmed it."""

import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from cdc.core import fail_points
from cdc.core.errors import CdcError
from cdc.torture.faults.processes import stopped
from tests.cells.cell import POINT_KINDS, VERB_PHASES, Cell
from tests.cells.evidence import keep_evidence
from tests.cells.faults import FAULTS, HOLD_SECONDS
from tests.cells.followed import Followed
from tests.cells.followers import STALL_SECONDS, UNTRANSLATED, Process, Thread, arming
from tests.cells.phases import ACTIONS, restart
from tests.cells.proof import find_difference
from tests.cells.result import GOOD, Result, Verdict
from tests.cells.verbs import MOST_REMEDIES, disturb_verb, finish_verb
from tests.cells.world import MakeWorld, World
from tests.cells.writer import Writer
from tests.support.cdc_inprocess import bootstrap
from tests.support.parts.pipelines import close_all_opened

REACH_SECONDS: Final = 40.0
MAINTENANCE_SECONDS: Final = 150.0
"""Until VACUUM has something to delete, on a pipeline that is new."""
TOLD: Final = 600
"""Characters that are kept of what was told."""
Say = Callable[[str], None]


class Runner:
    """Runs cells one after the other. `evidence`: where it is kept of those that differ."""

    def __init__(self, world: World, make: MakeWorld, say: Say, evidence: Path | None = None) -> None:
        self._world = world
        self._make = make
        self._say = say
        self._evidence = evidence
        self._followed = Followed(world)
        self._writer = Writer(world.pipeline, 1)
        self._is_whole = False
        self._is_proved = True

    def run(self, cell: Cell, *, is_proved: bool = True) -> Result:
        """Run one cell to its verdict. A pipeline that it has harmed is made anew for the next one.

        `is_proved`: compare everything after it; a cell without waits for the proof of one that comes next.
        """
        began, self._is_proved = time.monotonic(), is_proved or cell.phase == "bootstrap"
        self._followed.waited = {}
        try:
            if cell.phase != "bootstrap":
                self._make_whole(cell)
            result = self._run_verb(cell) if cell.phase in VERB_PHASES else self._run_beside(cell)
        except (CdcError, AssertionError) as error:
            found = f"{type(error).__name__}: {error} {self._followed.describe()}"
            result = Result(cell, "stuck", found=found)
        except Exception as error:  # noqa: BLE001 - one cell's failure ends no other
            result = Result(cell, "stuck", found="".join(traceback.format_exception(error)[-4:]))
        if result.verdict not in (*GOOD, "not reached"):
            self._is_whole = False
        # each look opens clients, and librdkafka has a thousand in a process
        close_all_opened()
        result = replace(result, seconds=time.monotonic() - began, waited=self._followed.waited)
        self._say(f"RAN {result}")
        return result

    def close(self) -> None:
        self._followed.end()

    def _make_whole(self, cell: Cell) -> None:
        """A pipeline that is bootstrapped, and every follower has it: what a cell waits for is its own doing."""
        if self._is_whole:
            return
        self._renew()
        bootstrap(self._world.pipeline, self._world.spark)
        self._followed.recover(cell)
        self._is_whole = True

    def _renew(self) -> None:
        self._followed.end()
        fail_points.arm("")
        self._world.start_all()
        self._world.pipeline = self._make()
        self._writer = Writer(self._world.pipeline, self._world.next_number())
        self._is_whole = False

    # a cell beside `follow`

    def _run_beside(self, cell: Cell) -> Result:
        with self._writer.writing():
            problem = self._disturb(cell)
            ended = time.monotonic()
            told = self._followed.recover(cell)
            recovery = time.monotonic() - ended
        if problem:
            return Result(cell, "not reached", recovery, found=problem)
        return self._prove(cell, recovery, told)

    def _disturb(self, cell: Cell) -> str:
        """Do what the cell says; returns why it was not reached, if it was not."""
        if cell.kind in POINT_KINDS:
            return self._disturb_at_point(cell)
        if cell.kind == "process killed":
            self._kill_process(cell)
        elif cell.kind == "process stopped":
            self._stop_process(cell)
        else:
            self._do_fault(cell)
        return ""

    def _do_fault(self, cell: Cell) -> None:
        if cell.phase == "catch_up":
            self._followed.end()
            ACTIONS[cell.phase](self._world)
        else:
            self._followed.start(cell)
        with FAULTS[cell.kind](self._world, cell):
            self._followed.start(cell)
            # a source that is away takes no writes
            if cell.component != "postgres":
                ACTIONS[cell.phase](self._world)
            time.sleep(HOLD_SECONDS)
        if cell.component == "postgres":
            ACTIONS[cell.phase](self._world)

    def _kill_process(self, cell: Cell) -> None:
        follow = self._followed.start(cell)
        assert isinstance(follow, Process)
        ACTIONS[cell.phase](self._world)
        time.sleep(self._world.next_number() % 10 / 10)
        follow.kill()

    def _stop_process(self, cell: Cell) -> None:
        follow = self._followed.start(cell)
        assert isinstance(follow, Process)
        family = [follow.process, *follow.process.children(recursive=True)]
        ACTIONS[cell.phase](self._world)
        with stopped(family):
            time.sleep(3 * HOLD_SECONDS)

    def _disturb_at_point(self, cell: Cell) -> str:
        if cell.phase == "catch_up":
            self._followed.end()
            ACTIONS[cell.phase](self._world)
            follow = self._followed.start(cell, arming(cell))
        else:
            follow = self._followed.start(cell)
            follow.arm(arming(cell))
        action_of = restart if cell.component == "request.taken" else ACTIONS[cell.phase]
        limit = MAINTENANCE_SECONDS if cell.phase == "maintenance" else REACH_SECONDS
        deadline = time.monotonic() + limit
        action_of(self._world)
        while not self._was_reached(cell, follow):
            if time.monotonic() > deadline:
                follow.arm("")
                return f"{cell.component} was not reached in {limit:.0f} s {follow.end}"
            time.sleep(0.2)
        if cell.kind == "stall":
            time.sleep(STALL_SECONDS)
        return ""

    def _was_reached(self, cell: Cell, follow: Thread | Process) -> bool:
        if isinstance(follow, Process):
            return not follow.is_running
        return cell.component not in fail_points.list_armed()

    # a cell of a verb from its start to its end

    def _run_verb(self, cell: Cell) -> Result:
        """The verb with the fault, and again until it is done; a bootstrap on a new pipeline."""
        if cell.phase == "bootstrap":
            self._renew()
        self._followed.end()
        with self._writer.writing():
            told, problem = disturb_verb(self._world, cell)
            ended = time.monotonic()
            line = finish_verb(self._world, cell)
            self._is_whole = True
            further = self._followed.recover(cell)
            recovery = time.monotonic() - ended
        if problem:
            return Result(cell, "not reached", recovery, found=problem)
        return self._prove(cell, recovery, " | ".join(filter(None, [told, line, further])))

    # the verdict

    def _prove(self, cell: Cell, recovery: float, told: str) -> Result:
        verdict: Verdict = "told, then equal" if told else "equal"
        for _ in range(MOST_REMEDIES if self._is_proved else 0):
            try:
                difference = find_difference(self._world)
            except CdcError as error:
                told = " | ".join(filter(None, [told, str(error)]))
                verdict = "told, then equal"
                self._followed.do_as_told([str(error)])
                self._followed.recover(cell)
                continue
            if difference:
                if self._evidence:
                    said = self._followed.job.lines if self._followed.job else ()
                    keep_evidence(self._world, difference, said, self._evidence / f"{time.time():.0f}")
                return Result(cell, "differs", recovery, told=told, found=difference[:1500])
            break
        else:
            if self._is_proved:
                return Result(cell, "stuck", recovery, told=told[:TOLD], found="cannot be compared")
        if UNTRANSLATED in told:
            verdict = "untranslated"
        return Result(cell, verdict, recovery, told=told[:TOLD])
