"""Makes a failing schedule smaller, by delta debugging.

Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing Input*, IEEE Transactions on Software Engineering
28, 2002.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(parts: Sequence[T], fails: Callable[[Sequence[T]], bool], may_go_on: Callable[[], bool]) -> Sequence[T]:
    """The smallest part of a failing sequence that was found to fail, too, in its order.

    `fails` is asked of smaller sequences, never of the same twice in a row; `may_go_on` before each. If it never says
    no, leaving out any single part of the result makes it pass.
    """
    pieces = 2
    while len(parts) > 1:
        smaller = next((each for each in _leave_out(parts, pieces) if may_go_on() and fails(each)), None)
        if smaller is not None:
            parts, pieces = smaller, max(pieces - 1, 2)
        elif pieces >= len(parts) or not may_go_on():
            break
        else:
            pieces = min(2 * pieces, len(parts))
    if len(parts) == 1 and may_go_on() and fails([]):
        return []
    return parts


def _leave_out(parts: Sequence[T], pieces: int) -> Iterator[Sequence[T]]:
    """The sequence without each of so many pieces; the last piece first, as what comes behind a failure is no cause."""
    bounds = [len(parts) * n // pieces for n in range(pieces + 1)]
    for start, end in zip(reversed(bounds[:-1]), reversed(bounds[1:]), strict=True):
        yield [*parts[:start], *parts[end:]]
