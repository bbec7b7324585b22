"""Takes a follower over from the `cdc follow` that runs, for the moment of a swap."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from cdc.core.errors import RefusedError
from cdc.core.waiting import wait_until
from cdc.run.lease import HANDED_OVER
from cdc.run.pipeline import Pipeline

HAND_OVER_SECONDS: Final = 300.0
"""How long to wait for a running stream: it first ends its present batch."""


@contextmanager
def take_over(pipeline: Pipeline, stream: str, say: Callable[[str], None]) -> Iterator[None]:
    """Let nobody else write to a follower, or the views, as long as the context lasts; the caller holds its rebuild.

    A stream that runs on this machine rests meanwhile, and goes on by itself, also when this process is killed. Raises
    RefusedError when it does not rest in time.
    """
    requests = pipeline.requests
    with ExitStack() as held:
        held.callback(requests.take_back, stream)
        if not wait_until(lambda: _has(pipeline, stream, held), HAND_OVER_SECONDS):
            raise RefusedError(
                f"{stream} has not rested for {HAND_OVER_SECONDS:.0f} s: its batch takes longer",
                "run it again; nothing was swapped",
            )
        say(f"{stream}: its stream rests")
        yield


def _has(pipeline: Pipeline, stream: str, held: ExitStack) -> bool:
    """Whether it is ours: its lease, or its stream rests in another process."""
    pipeline.requests.hand_over(stream)
    found = pipeline.leases.look(stream)
    if found.is_held:
        return found.noted is not None and found.noted.what == HANDED_OVER.what
    try:
        held.enter_context(pipeline.leases.hold(stream))
    except RefusedError:
        return False
    return True
