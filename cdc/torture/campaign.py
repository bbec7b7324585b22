"""A run, and where it fails the search for a smaller schedule that fails, too."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from cdc.cli.progress import open_progress
from cdc.core.waiting import Deadline
from cdc.torture.outcome import TortureOutcome
from cdc.torture.run import run_schedule
from cdc.torture.schedule import FaultSchedule, PlannedFault
from cdc.torture.shrink import shrink

FILE: Final = "cdc-torture-{seed}.json"
Say = Callable[[str], None]


def run_campaign(
    schedule: FaultSchedule, say: Say, folder: Path | None, seconds: float | None, shrink_seconds: float
) -> tuple[TortureOutcome, Path | None]:
    """Run a schedule; returns the outcome, and the file of the smallest schedule that fails, if it has failed.

    Raises CdcError as `run_schedule`. `seconds`: for the faults, `shrink_seconds`: for the search.
    """
    with open_progress() as progress:
        outcome = run_schedule(schedule, say, progress, folder, seconds)
    if outcome.failure is None:
        return outcome, None
    # before the search, which takes its time, and may be interrupted or fail
    say(f"{outcome.verdict}: {outcome.failure}")
    # what was not reached has no part in it
    reached = msgspec.structs.replace(schedule, faults=schedule.faults[: len(outcome.faults)])
    file = Path(FILE.format(seed=schedule.seed)).absolute()
    reached.write(file)
    _make_smaller(reached, outcome.verdict, say, folder, Deadline(shrink_seconds)).write(file)
    return outcome, file


def _make_smaller(
    schedule: FaultSchedule, verdict: str, say: Say, folder: Path | None, deadline: Deadline
) -> FaultSchedule:
    """Leave out faults, then writers, as long as it fails in the same way."""

    def fails(tried: FaultSchedule) -> bool:
        say(f"trying {len(tried.faults)} faults and {len(tried.writers)} writers")
        with open_progress() as progress:
            return run_schedule(tried, say, progress, folder).verdict == verdict

    def may_go_on() -> bool:
        return not deadline.is_past

    def with_faults(faults: Sequence[PlannedFault]) -> FaultSchedule:
        return msgspec.structs.replace(schedule, faults=tuple(faults))

    schedule = with_faults(shrink(schedule.faults, lambda faults: fails(with_faults(faults)), may_go_on))

    def with_writers(names: Sequence[str]) -> FaultSchedule:
        return msgspec.structs.replace(schedule, writers=tuple(names))

    return with_writers(shrink(schedule.writers, lambda names: fails(with_writers(names)), may_go_on))
