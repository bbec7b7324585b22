"""How often each question is asked, and how long a part may take for its answer."""

from dataclasses import dataclass
from typing import Final, Self

from cdc.run.health.capture_health import Look
from cdc.run.health.observation import CaptureObserver
from cdc.run.pipeline import Pipeline
from cdc.run.status.asking.questions import ALWAYS

SINGLE_SECONDS: Final = 4.0
"""How long a part may take that is asked once: somebody waits for the answer."""
EVERY_SECONDS: Final = 2.0
"""The interval of looks, unless somebody wants another."""


@dataclass(frozen=True, slots=True)
class Paces:
    """How often each question is asked, in seconds. `limit`: how long a part may take until it does not answer.

    `cut`: the lake's newest cut; in a folder a look is free, on an object store it is a request.
    """

    every: float = EVERY_SECONDS
    cut: float = ALWAYS
    tables: float = 10.0
    views: float = 10.0
    rows: float = 60.0
    files: float = 300.0
    history: float = 60.0
    limit: float = 10.0
    slow_limit: float = 300.0
    observe_limit: float = 15.0
    look: Look = CaptureObserver.glance
    """How it looks whether data moves."""
    is_single: bool = False
    """One look is all there is: nothing in it is old."""
    exact: bool = False
    """Rows are counted where that takes long, too, and nobody is told to hurry."""

    @classmethod
    def of_one_look(cls, *, exact: bool = False) -> Self:
        """Of a verb that looks once, and is to be sure whether the capture stands still."""
        return cls(limit=SINGLE_SECONDS, observe_limit=60.0, look=CaptureObserver.observe, is_single=True, exact=exact)

    @classmethod
    def of(cls, pipeline: Pipeline, every: float = EVERY_SECONDS) -> Self:
        if pipeline.lake.access is None:
            return cls(every)
        return cls(every, cut=10.0, tables=60.0, views=300.0, rows=300.0)
