"""One thing's trouble stops that thing: a view, a history, a table or a saved search, whatever error it meets.

The error becomes one line, which the thing keeps as the reason why it stopped, and its traceback goes to the log named
LOG. What concerns all things alike is no reason to stop one of them, and goes on to whoever runs them all.
"""

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import Final

from cdc.core.errors import CdcError, RefusedError, UnreachableError
from cdc.core.text.error_text import pick_root_cause

# made here, not by `getLogger`: while PySpark makes a logger of its own, others get its class, which writes JSON
LOG: Final = logging.Logger("cdc.trouble")
"""The logger that gets tracebacks. Nothing of it is shown unless somebody gives it a handler."""
SHARED: Final = (UnreachableError, RefusedError)
"""A server does not answer, or another process has taken over: the next thing would meet the same."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

LOG.addHandler(logging.NullHandler())


@contextmanager
def contain_errors(
    what: str, stop: Callable[[str], None], check_shared: Callable[[], Exception | None] = lambda: None
) -> Iterator[None]:
    """Run the block for one thing, named `what` in the log; any error of it is handed to `stop`, as one line.

    `check_shared`: asked after an error; one that it returns, of something that all things need, is raised instead.
    Also raised: errors of SHARED, a full disk, and what is no `Exception`.
    """
    try:
        yield
    except SHARED:
        raise
    except Exception as error:
        if shared := check_shared():
            raise shared from error
        if isinstance(error, OSError) and error.errno in _FULL:
            raise
        LOG.error("%s: %s", what, error, exc_info=error)
        stop(describe_error(error))


def describe_error(error: Exception) -> str:
    """What happened, as one line that is never empty: of ours what it says, of Spark's the innermost cause."""
    if isinstance(error, CdcError):
        return error.what
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        return pick_root_cause(str(error)) or type(error).__name__
    text = " ".join(str(error).split())[:_LONGEST]
    return f"an error that cdc does not know{_find_place(error)}: {type(error).__name__}{text and f': {text}'}"


_LONGEST: Final = 300


def _find_place(error: Exception) -> str:
    """Where an error was raised, for whoever reports it."""
    frames = extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
