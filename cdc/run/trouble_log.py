"""The log of tracebacks: of errors that stopped one thing, of which a verb prints one line (`cdc.core.containment`)."""

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

from cdc.core.containment import LOG

NAME: Final = "trouble.log"
MOST_BYTES: Final = 4 * 2**20


def open_trouble_log(state: Path) -> Path:
    """Let tracebacks go to a file below the pipeline's state, beside Spark's log; returns its path."""
    path = (state / "logs" / NAME).absolute()
    opened = [handler for handler in LOG.handlers if isinstance(handler, RotatingFileHandler)]
    if str(path) not in [handler.baseFilename for handler in opened]:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(path, maxBytes=MOST_BYTES, backupCount=1, delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        LOG.addHandler(handler)
    return path
