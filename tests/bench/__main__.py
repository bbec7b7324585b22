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
from tests.bench.record import recorded, write
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
    say(f"report: {write_report(plan.out, list(GOALS))}")


def say(text: str) -> None:
    """A line about the work."""
    sys.stderr.write(f"{text}\n")


def _run(goal: Goal, plan: Plan) -> None:
    where, sizes = {**about(), "settings": plan.settings}, plan.sizes_of(goal)
    folder = Path(tempfile.mkdtemp(prefix=f"cdc-bench-{goal.name}-", dir=plan.scratch))
    # Postgres runs as another user where we are root, and has to get in
    folder.chmod(0o755)
    try:
        with Meter() as meter, goal.stage(Ground(folder, meter, say, plan.settings), sizes) as stage:
            runs = interleaved(goal, plan.sides_of(goal), stage, plan.pairs, say)
    except FAILURES as failure:
        # the other goals still have their turn
        runs = not_set_up(goal, failure)
        say(f"{goal.name}: {runs[0].trouble}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    write(recorded(goal, plan.scale, sizes, where, runs), plan.out)


def _like_ctrl_c(number: int, frame: FrameType | None) -> None:
    """A bench that is told to end takes everything down that it brought up."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
