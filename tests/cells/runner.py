"""Goes through cells on one pipeline, which is made anew when a cell has harmed it."""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

from cdc.core import fail_points
from cdc.core.errors import CdcError
from cdc.torture.faults.processes import stopped
from tests.cells.cell import BY_PROCESS, POINT_KINDS, VERB_PHASES, Cell
from tests.cells.faults import FAULTS, HOLD_SECONDS
from tests.cells.followers import Process, Thread
from tests.cells.phases import ACTIONS, restart
from tests.cells.proof import await_all, find_difference
from tests.cells.result import GOOD, Result, Verdict
from tests.cells.world import MakeWorld, World
from tests.cells.writer import Writer
from tests.support.cdc_inprocess import bootstrap, problems, recapture_all
from tests.support.waiting import until

REACH_SECONDS: Final = 25.0
STALL_SECONDS: Final = 2.0
MOST_REMEDIES: Final = 4
Say = Callable[[str], None]


class Runner:
    """Runs cells one after the other."""

    def __init__(self, world: World, make: MakeWorld, say: Say) -> None:
        self._world = world
        self._make = make
        self._say = say
        self._follow: Thread | Process | None = None
        self._writer = Writer(world.pipeline, 1)
        self._is_whole = False
        self._is_proved = True

    def run(self, cell: Cell, *, is_proved: bool = True) -> Result:
        """Run one cell to its verdict. A pipeline that it has harmed is made anew for the next one.

        `is_proved`: compare everything after it; a cell without waits for the proof of one that comes next.
        """
        began, self._is_proved = time.monotonic(), is_proved or cell.phase == "bootstrap"
        try:
            if cell.phase != "bootstrap":
                self._make_whole()
            result = self._run_verb(cell) if cell.phase in VERB_PHASES else self._run_beside(cell)
        except (CdcError, AssertionError) as error:
            result = Result(cell, "stuck", found=f"{type(error).__name__}: {error} {self._describe()}")
        if result.verdict not in (*GOOD, "not reached"):
            self._is_whole = False
        result = replace(result, seconds=time.monotonic() - began)
        self._say(f"RAN {result}")
        return result

    def close(self) -> None:
        self._end_follow()

    def _describe(self) -> str:
        """What `follow` has said last, and what `status` finds wrong."""
        lines = [] if self._follow is None else self._follow.lines[-12:]
        try:
            found = problems(self._world.pipeline)
        except Exception as error:  # noqa: BLE001 - whatever it is, the cell's own failure is to be told
            found = [repr(error)]
        return f"\n  said: {lines}\n  status: {found}"

    def _make_whole(self) -> None:
        """A pipeline that is bootstrapped, and followed."""
        if self._is_whole:
            return
        self._renew()
        bootstrap(self._world.pipeline, self._world.spark)
        self._is_whole = True

    def _renew(self) -> None:
        self._end_follow()
        self._world.pipeline = self._make()
        self._writer = Writer(self._world.pipeline, self._world.next_number())
        self._is_whole = False

    def _start(self, cell: Cell, armed: str = "") -> Thread | Process:
        """Let it be followed as the cell needs it."""
        kind = Process if cell.kind in BY_PROCESS and cell.phase not in VERB_PHASES else Thread
        if self._follow is not None and (not self._follow.is_running or not isinstance(self._follow, kind)):
            self._end_follow()
        if self._follow is None:
            if kind is Process:
                self._follow = Process(self._world, armed=armed)
            else:
                self._follow = Thread(self._world, armed)
            if not armed:
                self._follow.await_start()
        return self._follow

    def _end_follow(self) -> None:
        if self._follow is not None:
            self._follow.stop()
        self._follow = None

    # a cell beside `follow`

    def _run_beside(self, cell: Cell) -> Result:
        with self._writer.writing():
            problem = self._disturb(cell)
            ended = time.monotonic()
            told = self._recover(cell)
            recovery = time.monotonic() - ended
        if problem:
            return Result(cell, "not reached", recovery, found=problem)
        return self._prove(cell, recovery, told)

    def _disturb(self, cell: Cell) -> str:
        """Do what the cell says; returns why it was not reached, if it was not."""
        if cell.kind in POINT_KINDS:
            return self._disturb_at_point(cell)
        if cell.kind == "process killed":
            follow = self._start(cell)
            ACTIONS[cell.phase](self._world)
            time.sleep(self._world.next_number() % 10 / 10)
            assert isinstance(follow, Process)
            follow.kill()
            return ""
        if cell.kind == "process stopped":
            self._stop_process(cell)
            return ""
        if cell.phase == "catch_up":
            self._end_follow()
            ACTIONS[cell.phase](self._world)
        else:
            self._start(cell)
        with FAULTS[cell.kind](self._world, cell):
            self._start(cell)
            # a source that is away takes no writes
            if cell.component != "postgres":
                ACTIONS[cell.phase](self._world)
            time.sleep(HOLD_SECONDS)
        if cell.component == "postgres":
            ACTIONS[cell.phase](self._world)
        return ""

    def _stop_process(self, cell: Cell) -> None:
        follow = self._start(cell)
        assert isinstance(follow, Process)
        family = [follow.process, *follow.process.children(recursive=True)]
        ACTIONS[cell.phase](self._world)
        with stopped(family):
            time.sleep(3 * HOLD_SECONDS)

    def _disturb_at_point(self, cell: Cell) -> str:
        armed = _arming(cell)
        if cell.phase == "catch_up":
            self._end_follow()
            ACTIONS[cell.phase](self._world)
            follow = self._start(cell, armed)
        else:
            follow = self._start(cell)
            follow.arm(armed)
        action_of = restart if cell.component == "request.taken" else ACTIONS[cell.phase]
        deadline = time.monotonic() + REACH_SECONDS
        action_of(self._world)
        while not self._was_reached(cell, follow):
            if time.monotonic() > deadline:
                follow.arm("")
                return f"{cell.component} was not reached in {REACH_SECONDS:.0f} s {follow.end}"
            time.sleep(0.2)
        if cell.kind == "stall":
            time.sleep(STALL_SECONDS)
        return ""

    def _was_reached(self, cell: Cell, follow: Thread | Process) -> bool:
        if isinstance(follow, Process):
            return not follow.is_running
        return cell.component not in fail_points.list_armed()

    # until it is well again

    def _recover(self, cell: Cell) -> str:
        """Start what has ended, do what is told, until every follower has what is committed; returns what was told."""
        told = list[str]()
        if self._follow is not None and cell.kind not in BY_PROCESS and not self._follow.is_running:
            told.append(self._follow.end)
        for _ in range(MOST_REMEDIES):
            follow = self._start(cell)
            try:
                self._await_or_end(follow)
            except CdcError as error:
                # one that ends just now says more than the one who waits for it
                line = follow.end or str(error)
                told.append(line)
                self._do_as_told(line)
            else:
                return " | ".join(told)
        raise AssertionError(f"after {MOST_REMEDIES} remedies: {told}")

    def _await_or_end(self, follow: Thread | Process) -> None:
        """Wait for all followers. Raises CdcError when that is in vain, or it has ended."""
        if not follow.is_running:
            raise CdcError(follow.end or "it has ended", "start it again")
        await_all(self._world, lambda: follow.is_running)

    def _do_as_told(self, line: str) -> None:
        if "cdc recapture" in line:
            self._end_follow()
            recapture_all(self._world.pipeline, self._world.spark)
        elif "cdc bootstrap" in line and "by itself" not in line:
            self._end_follow()
            bootstrap(self._world.pipeline, self._world.spark)

    def _prove(self, cell: Cell, recovery: float, told: str) -> Result:
        verdict: Verdict = "told, then equal" if told else "equal"
        if not self._is_proved:
            return Result(cell, verdict, recovery, told=told[:600])
        for _ in range(MOST_REMEDIES):
            try:
                difference = find_difference(self._world)
            except CdcError as error:
                told = " | ".join(filter(None, [told, str(error)]))
                verdict = "told, then equal"
                self._do_as_told(str(error))
                self._recover(cell)
                continue
            if difference:
                return Result(cell, "differs", recovery, told=told, found=difference[:1500])
            return Result(cell, verdict, recovery, told=told[:600])
        return Result(cell, "stuck", recovery, told=told[:600], found="cannot be compared")

    # a cell of a verb from its start to its end

    def _run_verb(self, cell: Cell) -> Result:
        """The verb with the fault, and again until it is done; a bootstrap on a new pipeline."""
        if cell.phase == "bootstrap":
            self._renew()
        self._end_follow()
        with self._writer.writing():
            told, problem = self._disturb_verb(cell)
            ended = time.monotonic()
            line = self._finish_verb(cell)
            self._is_whole = True
            further = self._recover(cell)
            recovery = time.monotonic() - ended
        if problem:
            return Result(cell, "not reached", recovery, found=problem)
        return self._prove(cell, recovery, " | ".join(filter(None, [told, line, further])))

    def _disturb_verb(self, cell: Cell) -> tuple[str, str]:
        """Returns what was told, and why the fault was not reached, if it was not."""
        if cell.kind == "kill":
            process = Process(self._world, (cell.phase, *self._words(cell)), _arming(cell))
            try:
                until(lambda: not process.is_running, "it ends", 180.0, every=0.1)
            finally:
                is_killed = process.process.poll() == -signal.SIGKILL
                process.kill()
            return "", "" if is_killed else f"it ended with {process.process.returncode}: {process.said[-300:]}"
        if cell.kind in POINT_KINDS:
            return self._arm_verb(cell)
        failure = list[str]()
        thread = threading.Thread(target=self._try_verb, args=(cell, failure))
        thread.start()
        time.sleep(1 + self._world.next_number() % 6)
        with FAULTS[cell.kind](self._world, cell) if thread.is_alive() else nullcontext():
            time.sleep(HOLD_SECONDS)
        thread.join()
        return failure[0] if failure else "", ""

    def _words(self, cell: Cell) -> Sequence[str]:
        return ("--yes",) if cell.phase == "recapture" else ()

    def _arm_verb(self, cell: Cell) -> tuple[str, str]:
        fail_points.arm(_arming(cell))
        failure = list[str]()
        self._try_verb(cell, failure)
        missed = cell.component in fail_points.list_armed()
        fail_points.arm("")
        return failure[0] if failure else "", f"{cell.component} was not reached: {failure}" if missed else ""

    def _try_verb(self, cell: Cell, failure: list[str]) -> None:
        try:
            self._do_verb(cell)
        except CdcError as error:
            failure.append(str(error))
        except Exception as error:  # noqa: BLE001 - what a user would see as a bug
            failure.append(f"UNTRANSLATED {error!r}")

    def _do_verb(self, cell: Cell) -> None:
        if cell.phase == "recapture":
            recapture_all(self._world.pipeline, self._world.spark)
        else:
            bootstrap(self._world.pipeline, self._world.spark)

    def _finish_verb(self, cell: Cell) -> str:
        """The same again until it is done, as it is told; returns what was told on the way."""
        told = list[str]()
        for _ in range(MOST_REMEDIES):
            try:
                self._do_verb(cell)
            except CdcError as error:
                told.append(str(error))
                if "cdc recapture" in str(error) and cell.phase != "recapture":
                    recapture_all(self._world.pipeline, self._world.spark)
            else:
                return " | ".join(told)
        raise AssertionError(f"after {MOST_REMEDIES} tries: {told}")


def _arming(cell: Cell) -> str:
    """The cell's fail point with its action, as CDC_FAIL_POINTS has it."""
    return f"{cell.component}:{f'stall={STALL_SECONDS}' if cell.kind == 'stall' else cell.kind}"
