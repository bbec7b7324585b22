"""`cdc pause`, `cdc resume`, `cdc restart`: asks what a verb would do and cost, and does it."""

from cdc.config.settings import CAPTURE
from cdc.core.errors import ConfigurationError
from cdc.run.control import capture, stream
from cdc.run.control.question import ControlVerb, Question
from cdc.run.pipeline import Pipeline


def list_names(pipeline: Pipeline) -> list[str]:
    """What can be paused: the capture, every follower, and the views if there are any."""
    return [CAPTURE, *pipeline.settings.stream_names]


def ask(pipeline: Pipeline, verb: ControlVerb, on: str) -> Question:
    """What the verb would do to this object and cost, with present numbers; changes nothing.

    A part that does not answer costs its number, or is why the verb is `refused`. Raises ConfigurationError for a name
    that the pipeline does not have.
    """
    _check_name(pipeline, on)
    return capture.ask(pipeline, verb) if on == CAPTURE else stream.ask(pipeline, verb, on)


def act(pipeline: Pipeline, verb: ControlVerb, on: str, by: str) -> str:
    """Do it; returns what became of it. `by`: who asks, as the status names them.

    Raises CdcError when it cannot be done, also the `refused` of the same question.
    """
    question = ask(pipeline, verb, on)
    if question.refused:
        raise question.refused
    return capture.act(pipeline, verb, by) if on == CAPTURE else stream.act(pipeline, verb, on, by)


def _check_name(pipeline: Pipeline, on: str) -> None:
    if on not in (names := list_names(pipeline)):
        raise ConfigurationError(f"there is no {on} to pause or resume", f"it has {', '.join(names)}")
