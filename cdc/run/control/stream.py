"""Pauses, resumes and restarts one follower's stream, by requests that a running `cdc follow` keeps."""

from collections.abc import Callable

from cdc.core.errors import CdcError, PausedError, PreconditionError
from cdc.core.text.plural import format_bytes
from cdc.core.waiting import wait_until
from cdc.run.control.question import ControlVerb, Question
from cdc.run.pipeline import Pipeline

TAKE_SECONDS = 10.0
"""How long to wait for the running stream: it first ends its present batch, which may take longer."""


def ask(pipeline: Pipeline, verb: ControlVerb, on: str) -> Question:
    """What the verb would do to the follower's stream and cost."""
    refused = _find_refusal(pipeline, verb, on)
    stays = "what the follower holds, and its position; no change is lost or applied twice"
    return Question(verb, on, _describe_effect(pipeline, verb, on), _describe_costs(pipeline, verb, on), stays, refused)


def act(pipeline: Pipeline, verb: ControlVerb, on: str, by: str) -> str:
    """Make the request, and wait some seconds until the running stream has taken it; returns what became of it."""
    requests, is_followed = pipeline.requests, pipeline.leases.is_held(on)
    if verb is ControlVerb.RESTART:
        requests.restart(on)
        return _await_taken(pipeline, on, lambda: not requests.wants_restart(on), f"{on} starts anew")
    if verb is ControlVerb.RESUME:
        requests.resume(on)
        if not is_followed:
            return f"{on} is resumed; nobody follows it on this machine: run `cdc follow`"
        return _await_taken(pipeline, on, lambda: not _rests(pipeline, on), f"{on} goes on")
    requests.pause(on, by)
    if not is_followed:
        return f"{on} is paused: a `cdc follow` on this machine does not follow it until `cdc resume {on}`"
    return _await_taken(pipeline, on, lambda: _rests(pipeline, on), f"{on} is paused")


def _await_taken(pipeline: Pipeline, on: str, is_taken: Callable[[], bool], done: str) -> str:
    if wait_until(is_taken, TAKE_SECONDS):
        return done
    return f"asked; {on} ends its present batch first, which takes longer than {TAKE_SECONDS:.0f} s"


def _rests(pipeline: Pipeline, on: str) -> bool:
    """Has the running stream noted that it is paused?"""
    return isinstance(pipeline.leases.look(on).problem, PausedError)


def _find_refusal(pipeline: Pipeline, verb: ControlVerb, on: str) -> CdcError | None:
    is_paused = pipeline.requests.is_paused(on)
    if verb is ControlVerb.RESUME and not is_paused:
        return PreconditionError(f"follower {on} is not paused on this machine", "see `cdc status`")
    if verb is ControlVerb.RESTART and is_paused:
        return pipeline.requests.read_pause(on)
    if verb is ControlVerb.RESTART and not pipeline.leases.is_held(on):
        return PreconditionError(f"nobody follows {on} on this machine", "run `cdc follow`")
    return None


def _describe_effect(pipeline: Pipeline, verb: ControlVerb, on: str) -> str:
    behind = "; nothing behind it gets changes either" if on == pipeline.lake_name else "; the others go on"
    if verb is ControlVerb.PAUSE:
        return f"its stream ends after its present batch{behind}. It stays paused if `cdc follow` is started again"
    if verb is ControlVerb.RESUME:
        return "its stream goes on at its position, and catches up"
    return f"its stream ends after its present batch and starts anew at its position{behind}"


def _describe_costs(pipeline: Pipeline, verb: ControlVerb, on: str) -> str:
    if verb is not ControlVerb.PAUSE:
        return "load until it has caught up" if verb is ControlVerb.RESUME else "some seconds without news in it"
    if on == pipeline.lake_name:
        return (
            f"the log keeps changes for {pipeline.settings.log.retention_hours} h (log.retention_hours); a longer pause"
            " loses history, and then only `cdc recapture` helps"
        )
    return f"the lake keeps old files until it goes on{_describe_rate(pipeline)}"


def _describe_rate(pipeline: Pipeline) -> str:
    try:
        rate = pipeline.lake_follower.write_rate()
    except CdcError:
        return ""
    return f", about {format_bytes(rate.bytes)} an hour at the present rate" if rate else ""
