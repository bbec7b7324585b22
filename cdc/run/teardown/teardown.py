"""`cdc teardown`: takes away what a pipeline has made, and leaves its source as it was.

Nothing is taken that is not known to be this pipeline's: by its registration in the source, or by its connector. Parts
may be down, or things gone already: the rest is taken away, and what is left is told, for a second run.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from cdc.config.settings import VIEWS
from cdc.connect.source.removal import LackingRightError
from cdc.core.errors import CdcError, IncompleteError, PreconditionError
from cdc.run.lease import COPIES
from cdc.run.pipeline import Pipeline
from cdc.run.teardown.belonging import Belonging, Belongings
from cdc.run.teardown.capture_belongings import CaptureBelongings
from cdc.run.teardown.data_belongings import find_data, find_registered, is_of_follower


@dataclass(frozen=True, slots=True)
class TornDown:
    """What was taken away, and an error for each thing that is left.

    `denied`: what this role may not remove from the source.
    """

    removed: list[str] = field(default_factory=list)
    left: list[CdcError] = field(default_factory=list)
    denied: list[Belonging] = field(default_factory=list)

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
    done = TornDown(left=list(belongings.unknown))
    with ExitStack() as held:
        # a lease leaves a file, which is not to be made for nothing
        if belongings.found or belongings.last:
            for name in [*pipeline.settings.followers, VIEWS, COPIES]:
                held.enter_context(pipeline.leases.hold(name))
            pipeline.requests.note_teardown()
        _remove_all(belongings, done, say)
    if done.denied:
        done.left.append(_describe_denied(done.denied))
    for name in pipeline.requests.list_paused():
        pipeline.requests.resume(name)
    if not done.left:
        pipeline.requests.forget_teardown()
    return done


def _remove_all(belongings: Belongings, done: TornDown, say: Callable[[str], None]) -> None:
    for each in belongings.found:
        _remove(each, done, say)
    if done.denied and not done.left:
        # nothing else has to be known by these: one administrator removes all at once
        done.denied.extend(each for each in belongings.last if each.statements)
    for each in belongings.last:
        if each not in done.denied:
            _remove_last(each, done, say)


def _remove_last(each: Belonging, done: TornDown, say: Callable[[str], None]) -> None:
    if done.left or done.denied:
        done.left.append(CdcError(f"{each} is kept until the rest is gone", "run `cdc teardown` again"))
    else:
        _remove(each, done, say)


def _describe_denied(denied: Sequence[Belonging]) -> CdcError:
    statements = "; ".join(each.statements for each in denied)
    return PreconditionError(
        f"left, since this role may not remove it: {', '.join(map(str, denied))}",
        f"an administrator of the source runs all of this, then `cdc teardown` again: {statements}",
    )


def _remove(each: Belonging, done: TornDown, say: Callable[[str], None]) -> None:
    try:
        each.remove()
    except LackingRightError:
        done.denied.append(each)
    except CdcError as error:
        done.left.append(type(error).from_text(f"{each} is left: {error.what}", error.remedy))
    except OSError as error:
        done.left.append(CdcError(f"{each} is left: {error.strerror}", "free it, then `cdc teardown` again"))
    else:
        say(f"removed {each}")
        done.removed.append(f"{each.kind} {each.name}")
