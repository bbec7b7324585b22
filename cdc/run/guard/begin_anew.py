"""Begins the capture anew by itself, where a plan says so, and tries until that is done."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event
from typing import Final

from cdc.config.settings import CAPTURE
from cdc.core.errors import CdcError, ConfigurationError, HistoryLostError
from cdc.core.position import format_lsn
from cdc.core.text.lines import WarningLine
from cdc.progress import LineProgress
from cdc.run.copy.recapture import recapture
from cdc.run.health.slot_drop import SlotDropPlan
from cdc.run.pipeline import Pipeline

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 60.0
FINAL: Final = (ConfigurationError, HistoryLostError)
"""What no further try repairs."""
Say = Callable[[str], None]


def finish_plan(pipeline: Pipeline, say: Say, stopping: Event) -> None:
    """Begin the capture anew, if a plan says so; tries again until it is done, or `stopping` is set.

    Raises CdcError for what no further try repairs.
    """
    plan = SlotDropPlan.read(pipeline)
    if plan is None:
        return
    say(WarningLine.of(str(plan.describe()), plan.describe()))
    told = ""
    for pause in _pauses():
        pipeline.look_again()
        reason = _find_wait(pipeline) or (None if _is_done(pipeline, plan) else _try(pipeline, plan, say))
        if reason is None:
            pipeline.requests.forget_recapture()
            return
        if str(reason) != told:
            told = str(reason)
            say(WarningLine.of(f"capture: not begun anew yet: {reason}; trying again until it works", reason))
        if stopping.wait(pause):
            return


def _pauses() -> Iterator[float]:
    seconds = FIRST_PAUSE_SECONDS
    while True:
        yield seconds
        seconds = min(2 * seconds, LONGEST_PAUSE_SECONDS)


def _find_wait(pipeline: Pipeline) -> CdcError | None:
    """A recapture ends the pause of a capture, and writes into a lake that rests: both are their owners' to do."""
    return pipeline.requests.read_pause(CAPTURE) or pipeline.requests.read_pause(pipeline.lake_name)


def _is_done(pipeline: Pipeline, plan: SlotDropPlan) -> bool:
    """Has somebody made a recapture since?"""
    with suppress(CdcError):
        position = pipeline.lake_follower.position()
        return position is not None and position.log_start.number > plan.capture
    return False


def _try(pipeline: Pipeline, plan: SlotDropPlan, say: Say) -> CdcError | None:
    try:
        result = recapture(pipeline, say, LineProgress(say, every=30.0))
    except FINAL:
        raise
    except CdcError as error:
        return error
    took = round(time.time() - plan.at)
    say(f"capture: began anew at {format_lsn(result.lsn)}, {sum(result.copied.values()):,} rows copied, {took} s after")
    if pipeline.settings.histories:
        gap = f"between {plan.lsn} and {format_lsn(result.lsn)}"
        say(WarningLine(f"histories lack the versions committed {gap}: of those rows they have the last one alone"))
    return None
