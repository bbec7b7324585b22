"""`python -m tests.bench`: run goals, write what was measured, and make the page of it."""

import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

from tests.bench.about import about
from tests.bench.goal import Goal
from tests.bench.goals import GOALS
from tests.bench.ground import Ground
from tests.bench.meter.meter import Meter
from tests.bench.pairing import FAILURES, interleaved, not_set_up
from tests.bench.plan import Plan, planned
from tests.bench.record import NotComparableError, Record, gone_on_with, recorded, write
from tests.bench.report.page import write_report

INTERRUPTED = 130


def main() -> None:
    """Do what the command line asks for."""
    plan = planned()
    if plan.list_only:
        for goal in GOALS.values():
            sys.stdout.write(f"{goal.name:<16} {goal.title}: {goal.asked}\n")
        return
    signal.signal(signal.SIGTERM, _like_ctrl_c)
    try:
        for goal in plan.goals if plan.pairs else ():
            _run(goal, plan)
    except KeyboardInterrupt:
        # everything that was brought up has been taken down on the way here
        raise SystemExit(INTERRUPTED) from None
    except NotComparableError as error:
        raise SystemExit(str(error)) from None
    say(f"report: {write_report(plan.out, list(GOALS))}")


def say(text: str) -> None:
    """A line about the work."""
    sys.stderr.write(f"{text}\n")


def _run(goal: Goal, plan: Plan) -> None:
    record = _begun(goal, plan)
    pairs = range(record.pairs, record.pairs + plan.pairs)
    folder = Path(tempfile.mkdtemp(prefix=f"cdc-bench-{goal.name}-", dir=plan.scratch))
    # Postgres runs as another user where we are root, and has to get in
    folder.chmod(0o755)
    try:
        with Meter() as meter, goal.stage(Ground(folder, meter, say, plan.settings), plan.sizes_of(goal)) as stage:
            for run in interleaved(goal, plan.sides_of(goal), stage, pairs, say):
                record = record.with_runs([run])
                # at once: whoever is ended keeps what was measured
                write(record, plan.out)
    except FAILURES as failure:
        # the other goals still have their turn
        runs = not_set_up(goal, failure, record.pairs)
        say(f"{goal.name}: {runs[0].trouble}")
        write(record.with_runs(runs), plan.out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _begun(goal: Goal, plan: Plan) -> Record:
    """Without a run, or with those that are there already."""
    empty = recorded(goal, plan.scale, plan.sizes_of(goal), {**about(), "settings": plan.settings}, [])
    return gone_on_with(empty, plan.out) if plan.more else empty


def _like_ctrl_c(number: int, frame: FrameType | None) -> None:
    """A bench that is told to end takes everything down that it brought up."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
