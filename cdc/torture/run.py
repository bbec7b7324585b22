"""One run: parts, writers and readers, one fault after the other, and the proof at the end."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from cdc.core.errors import CdcError
from cdc.core.waiting import Deadline
from cdc.progress import Progress
from cdc.torture.commands import FollowProcess, run_verb
from cdc.torture.faults.clock import compile_clock
from cdc.torture.faults.files import back_up_state
from cdc.torture.faults.ground import Ground, LeftOutError
from cdc.torture.faults.registry import CAUSES
from cdc.torture.outcome import FaultResult, TortureOutcome
from cdc.torture.proof import prove_equal, prove_histories
from cdc.torture.readers import Witnesses
from cdc.torture.recovery import Recovery
from cdc.torture.remedies import Operator, as_error
from cdc.torture.schedule import FaultSchedule, PlannedFault, group
from cdc.torture.site import TortureSite, open_site
from cdc.torture.writers.registry import make_writers
from cdc.torture.writers.writer import Writers

CHECKPOINT: Final = 6
"""After so many faults everything is compared, while nothing is written."""
LAST_LINES: Final = 15
Say = Callable[[str], None]


def run_schedule(
    schedule: FaultSchedule, say: Say, progress: Progress, folder: Path | None = None, seconds: float | None = None
) -> TortureOutcome:
    """Carry a schedule out in a place of its own, which is gone afterwards; returns what came of it.

    `seconds`: begin no fault later than that. Raises CdcError only for what is no fault of the pipeline: parts that
    cannot be started, say.
    """
    schedule.check()
    outcome, began = TortureOutcome(schedule), time.monotonic()
    with open_site(folder, progress) as site:
        run = TortureRun(site, outcome, say)
        try:
            run.carry_out(seconds)
        # whatever it is, it is the verdict: a bug of the toolkit as much as a difference
        except Exception as failure:  # noqa: BLE001
            outcome.failure = as_error(failure)
            outcome.evidence = run.gather_evidence()
    outcome.seconds = time.monotonic() - began
    return outcome


class TortureRun:
    """A run on a site."""

    def __init__(self, site: TortureSite, outcome: TortureOutcome, say: Say) -> None:
        self._site, self._outcome = site, outcome
        self._began = time.monotonic()
        self._follow = FollowProcess(site.config, compile_clock(site.folder))
        self._operator = Operator(site, self._follow)
        self._recovery = Recovery(site, self._follow, self._operator)
        self._told: list[str] = []
        self._print = say
        self._deadline: Deadline | None = None

    def carry_out(self, seconds: float | None) -> None:
        """Copy, follow, write, read, cause the faults, and prove."""
        schedule = self._outcome.schedule
        writers = Writers(self._site, make_writers(schedule), schedule.rate)
        readers = Witnesses(self._site)
        self._say("cdc bootstrap")
        if (done := run_verb(self._site.config, "bootstrap")).code:
            raise CdcError(f"cdc bootstrap ended with {done.code}: {done.error}")
        try:
            self._follow.start()
            self._recovery.wait(self._say, whole=True)
            back_up_state(self._site)
            self._deadline = Deadline(seconds) if seconds else None
            with writers.at_work(), readers.at_work():
                self._cause_all(group(schedule.faults), writers, readers)
                self._prove(writers)
            prove_histories(writers, readers)
        finally:
            self._follow.stop()
            self._count(writers, readers)

    def gather_evidence(self) -> list[str]:
        """What `cdc follow` said last."""
        return self._follow.said.splitlines()[-LAST_LINES:]

    def _cause_all(self, groups: Sequence[Sequence[PlannedFault]], writers: Writers, readers: Witnesses) -> None:
        caused = 0
        for faults in groups:
            if self._deadline and self._deadline.is_past:
                break
            recovered = self._cause(faults)
            self._count(writers, readers)
            self._say(f"  back after {recovered:.1f} s; {writers.written} transactions so far")
            writers.check()
            readers.check()
            if caused // CHECKPOINT < (caused := caused + len(faults)) // CHECKPOINT:
                self._prove(writers)
                back_up_state(self._site)

    def _cause(self, faults: Sequence[PlannedFault]) -> float:
        """Cause faults that last at once; returns the seconds until all followers are back."""
        time.sleep(faults[0].after)
        self._told = []
        results = self._outcome.faults
        try:
            with ExitStack() as lasting:
                for fault in faults:
                    # noted as it begins: it may be what ends the run
                    results.append(FaultResult(fault))
                    results[-1] = replace(results[-1], left_out=self._begin(fault, lasting))
                    time.sleep(fault.lasts)
            recovered = self._recovery.wait(self._say)
        finally:
            results[-1] = replace(results[-1], told=tuple(self._told))
        if not results[-1].left_out:
            results[-1] = replace(results[-1], recovered=recovered)
        return recovered

    def _begin(self, fault: PlannedFault, lasting: ExitStack) -> str:
        """Begin a fault; returns why it was left out, if it was."""
        self._say(f"{fault} for {fault.lasts:g} s")
        try:
            lasting.enter_context(CAUSES[fault.kind](Ground(self._site, self._follow), fault))
        except LeftOutError as reason:
            self._say(f"  left out: {reason}")
            return str(reason)
        return ""

    def _prove(self, writers: Writers) -> None:
        self._say("cdc verify: every follower, view and history, at one LSN")
        with writers.resting():
            proof = prove_equal(self._site, self._recovery, self._say)
        self._outcome.proofs.append(proof.lsn)
        self._say(f"  equal at {proof.lsn}: {proof.tables} tables")

    def _count(self, writers: Writers, readers: Witnesses) -> None:
        self._outcome.written, self._outcome.reads = writers.written, readers.reads
        self._outcome.remedies = self._operator.done

    def _say(self, line: str) -> None:
        if line.startswith(("told:", "done:", "cdc follow ended")):
            self._told.append(line)
        passed = f"{time.monotonic() - self._began:5.0f} s"
        left = f", {self._deadline.seconds_left:.0f} s left" if self._deadline else ""
        self._print(f"[{passed}{left}] {line}")
