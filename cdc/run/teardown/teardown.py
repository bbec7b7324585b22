"""`cdc teardown`: takes away what a pipeline has made, and leaves its source as it was.

Nothing is taken that is not known to be this pipeline's: by its registration in the source, or by its connector. Parts
may be down, or things gone already: the rest is taken away, and what is left is told, for a second run.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from cdc.config.settings import VIEWS
from cdc.core.errors import CdcError, IncompleteError
from cdc.run.lease import COPIES
from cdc.run.pipeline import Pipeline
from cdc.run.teardown.belonging import Belonging, Belongings
from cdc.run.teardown.capture_belongings import CaptureBelongings
from cdc.run.teardown.data_belongings import find_data, find_registered, is_of_follower


@dataclass(frozen=True, slots=True)
class TornDown:
    """What was taken away, and an error for each thing that is left."""

    removed: list[str]
    left: list[CdcError]

    def check_whole(self) -> None:
        """Raise IncompleteError when something is left."""
        if self.left:
            raise IncompleteError(self.left)


def find_belongings(pipeline: Pipeline, *, with_data: bool) -> Belongings:
    """Find what a teardown takes away, of parts that answer; changes nothing. `with_data`: what followers hold, too."""
    found, capture, s = Belongings(), CaptureBelongings(pipeline), pipeline.settings
    found.look(f"connector {s.connect.connector}", capture.find_connector)
    in_source = f"slot {s.source.slot}, publication {s.source.publication} and schema {s.source.heartbeat_schema}"
    found.look(in_source, capture.find_in_source)
    found.look(
        f"topics {s.log.prefix}.*", partial(capture.find_topics, is_of_follower=partial(is_of_follower, pipeline))
    )
    if s.catalog:
        found.look(f"tables in the catalog at {s.catalog.url}", partial(find_registered, pipeline))
    if with_data:
        find_data(pipeline, capture, found)
    else:
        found.kept.append(f"what the followers hold: {', '.join(s.followers)} (--data removes it, too)")
    return found


def tear_down(pipeline: Pipeline, belongings: Belongings, say: Callable[[str], None]) -> TornDown:
    """Take these things away, one after the other; one that cannot be removed ends nothing.

    Raises RefusedError while somebody follows the pipeline on this machine.
    """
    names = [*pipeline.settings.followers, VIEWS, COPIES]
    with ExitStack() as held:
        for name in names:
            held.enter_context(pipeline.leases.hold(name))
        done = TornDown([], list(belongings.unknown))
        for each in belongings.found:
            _remove(each, done, say)
        is_kept = bool(done.left)
        for each in belongings.last:
            if is_kept:
                done.left.append(CdcError(f"{each} is kept until the rest is gone", "run `cdc teardown` again"))
            else:
                _remove(each, done, say)
    for name in pipeline.requests.list_paused():
        pipeline.requests.resume(name)
    return done


def _remove(each: Belonging, done: TornDown, say: Callable[[str], None]) -> None:
    try:
        each.remove()
    except CdcError as error:
        done.left.append(type(error).from_text(f"{each} is left: {error.what}", error.remedy))
    except OSError as error:
        done.left.append(CdcError(f"{each} is left: {error.strerror}", "free it, then `cdc teardown` again"))
    else:
        say(f"removed {each}")
        done.removed.append(f"{each.kind} {each.name}")
