"""Begins the capture anew by itself, where a plan says so, and tries until that is done."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event
from typing import Final

from cdc.config.settings import CAPTURE
from cdc.connect.capture.debezium_properties import sends_messages
from cdc.core.errors import CdcError, ConfigurationError, HistoryLostError
from cdc.core.position import Position, format_lsn
from cdc.core.text.lines import WarningLine
from cdc.progress import LineProgress
from cdc.run.copy.recapture import recapture
from cdc.run.health.continuity import check_log_end, check_source
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
    told = ""
    for pause in _pauses():
        pipeline.look_again()
        reason: CdcError | None = None
        if not _is_over(pipeline, plan, say):
            if not told:
                say(WarningLine.of(str(plan.describe()), plan.describe()))
            reason = _find_wait(pipeline) or _try(pipeline, plan, say)
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


def _is_over(pipeline: Pipeline, plan: SlotDropPlan, say: Say) -> bool:
    """Has somebody made a recapture since, or was the slot never dropped?"""
    with suppress(CdcError):
        position = pipeline.lake_follower.position()
        if position is None or position.log_start.number > plan.capture:
            return position is not None
        if _has_whole_capture(pipeline, position):
            say(f"capture: slot {plan.slot} was not dropped, and nothing is lost: it goes on")
            return True
    return False


def _has_whole_capture(pipeline: Pipeline, position: Position) -> bool:
    """Is it known that the slot leads on from the lake's position? Raises CdcError where it does not."""
    # one that was begun and not finished has made its slot already
    pipeline.lake_follower.cuts.check_capture()
    if sends_messages(pipeline.settings.connect):
        # whether such a slot is the old one cannot be told: see `check_slot`
        return False
    with pipeline.open_source() as connection:
        check_source(pipeline, connection)
        check_log_end(pipeline, connection, position)
    return True


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
