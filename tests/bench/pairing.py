"""Runs the sides of a goal in turn, A B A B, and voids the runs whose contents differ from the source."""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import psutil
import psycopg
from deltalake.exceptions import DeltaError
from kafka.errors import KafkaError

from tests.bench.goal import Failed, Goal, Stage
from tests.bench.record import Run

FAILURES = (
    Failed,
    AssertionError,  # what is waited for did not come
    subprocess.SubprocessError,
    psutil.Error,
    psycopg.Error,
    httpx.HTTPError,
    DeltaError,
    KafkaError,
    OSError,
)
"""What keeps one side from getting through; the others go on, and the report says so."""

Say = Callable[[str], None]


def interleaved(goal: Goal, sides: Sequence[str], stage: Stage, pairs: Sequence[int], say: Say) -> Iterator[Run]:
    """Run these sides in turn, once for each of these pairs."""
    for pair in pairs:
        for side in sides:
            run = _judged(stage, _once(goal, stage, pair, side))
            say(f"{goal.name} pair {pair + 1} {side}: {run.trouble or _values(goal, run)}")
            yield run


def not_set_up(goal: Goal, failure: Exception, pair: int = 0) -> list[Run]:
    """What to record of a goal whose stage could not be made."""
    return [Run(pair, side, _now(), trouble=f"failed: could not be set up: {_said(failure)}") for side in goal.sides]


def _once(goal: Goal, stage: Stage, pair: int, side: str) -> Run:
    # what the side before has written would be put on the disk in this one's time
    os.sync()
    started = _now()
    try:
        return Run.of(pair, side, started, stage.run(side))
    except FAILURES as failure:
        return Run(pair, side, started, trouble=f"failed: {_said(failure)}")


def _judged(stage: Stage, run: Run) -> Run:
    """Nobody writes between a run and this: its copy has to hold what Postgres holds."""
    if run.trouble:
        return run
    try:
        found = stage.differences(run.side)
    except FAILURES as failure:
        found = [f"the contents could not be compared: {_said(failure)}"]
    return replace(run, trouble=f"void: {'; '.join(found)}") if found else run


def _values(goal: Goal, run: Run) -> str:
    known = [(m, run.values[m.name]) for m in goal.measures if m.name in run.values]
    return ", ".join(f"{m.title} {value:.3g} {m.unit}".rstrip() for m, value in known)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _said(failure: Exception) -> str:
    text = str(failure).strip() or type(failure).__name__
    return text if len(text) < 600 else f"{text[:300]} ... {text[-300:]}"
