"""The log of tracebacks: of errors that stopped one thing, of which a verb prints one line (`cdc.core.containment`)."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Lock
from typing import Final

from cdc.core.containment import LOG

NAME: Final = "trouble.log"
MOST_BYTES: Final = 4 * 2**20
_LOCK: Final = Lock()
_OPEN: Final[dict[Path, tuple[RotatingFileHandler, int]]] = {}
"""By file: its handler, and how many of this process's jobs write to it."""


@contextmanager
def trouble_log(state: Path) -> Iterator[Path]:
    """Let tracebacks go to a file below the pipeline's state, beside Spark's log, as long as the context lasts."""
    path = (state / "logs" / NAME).absolute()
    with _LOCK:
        handler, jobs = _OPEN.get(path) or (_open(path), 0)
        _OPEN[path] = handler, jobs + 1
    try:
        yield path
    finally:
        with _LOCK:
            _leave(path)


def _open(path: Path) -> RotatingFileHandler:
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = RotatingFileHandler(path, maxBytes=MOST_BYTES, backupCount=1, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    LOG.addHandler(handler)
    return handler


def _leave(path: Path) -> None:
    handler, jobs = _OPEN.pop(path)
    if jobs > 1:
        _OPEN[path] = handler, jobs - 1
        return
    LOG.removeHandler(handler)
    handler.close()
