"""`python -m tests.cells.child`: a `cdc` as a process, which arms the fail points that it reads from its input."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cdc.__main__ import main
from cdc.cli.invocation import Invocation
from cdc.core.fail_points import arm

_start = Invocation.starting_spark


def _listen() -> None:
    for line in sys.stdin:
        arm(line.strip())


def _quicken() -> None:
    from tests.cells.quick import quicken

    quicken()


@contextmanager
def _start_then_quicken(invocation: Invocation, verb: str) -> Iterator[None]:
    """Let Spark start as a user's does: what makes it quicker imports the engine, which takes seconds."""
    with _start(invocation, verb):
        _quicken()
        yield


if __name__ == "__main__":
    threading.Thread(target=_listen, daemon=True).start()
    if "follow" in sys.argv:
        Invocation.starting_spark = _start_then_quicken  # type: ignore[method-assign, assignment]
    else:
        _quicken()
    sys.exit(main())
