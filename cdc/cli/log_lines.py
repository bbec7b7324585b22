"""The lines of a verb that runs for long: with time and level, for people or as JSON.

By the standard library's logging: a handler on stderr, and a formatter.
"""

import json
import logging
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final, TextIO

from cdc.core.text.lines import ErrorLine, WarningLine

# made here, not by `getLogger`: while PySpark makes a logger of its own, others get its class, which writes JSON
LOG: Final = logging.Logger("cdc.follow")
MOST_BYTES: Final = 4 * 2**20
"""Of the file of lines; the one before it is kept, too."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class TextFormatter(logging.Formatter):
    """`2026-03-14T02:48:05.123Z WARNING search: OpenSearch does not answer`, in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_format_time(record)} {record.levelname:<7} {record.getMessage()}"


class JsonFormatter(logging.Formatter):
    """One object a line: `at`, `level`, `message`, and of an error its `code`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"at": _format_time(record), "level": record.levelname.lower(), "message": record.getMessage()}
        code = getattr(record, "code", None)
        return json.dumps(line | ({"code": code} if code else {}), ensure_ascii=False)


class _KeptLines(RotatingFileHandler):
    """Keeps the lines in a file; one that cannot be written, on a full disk, is no reason to say more."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def begin_log(log_format: LogFormat, folder: Path) -> None:
    """Let `log_line` write in this format, and keep the lines in the folder, for `cdc logs`.

    As JSON, no other line comes to stderr from here on: what Java and clients of Kafka write there goes to a file of
    the folder.
    """
    stream: TextIO = sys.stderr
    if log_format is LogFormat.JSON:
        stream = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", buffering=1)
        with _open(folder / "follow.stderr") as file:
            os.dup2(file.fileno(), sys.stderr.fileno())
    end_log()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    LOG.addHandler(handler)
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        kept = _KeptLines(folder / "follow.log", maxBytes=MOST_BYTES, backupCount=1, delay=True, encoding="utf-8")
        kept.setFormatter(TextFormatter())
        LOG.addHandler(kept)


def _open(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a", encoding="utf-8")
    # a full disk, say, which is no reason not to follow
    except OSError:
        return Path(os.devnull).open("w", encoding="utf-8")


def end_log() -> None:
    """Let lines be written as those of other verbs."""
    for handler in [*LOG.handlers]:
        LOG.removeHandler(handler)
        handler.close()


def log_line(text: str) -> bool:
    """Write a line with its level; returns False, and does nothing, while no log has begun."""
    if not LOG.handlers:
        return False
    levels = {ErrorLine: logging.ERROR, WarningLine: logging.WARNING}
    level = next((level for kind, level in levels.items() if isinstance(text, kind)), logging.INFO)
    LOG.log(level, "%s", text, extra={"code": getattr(text, "code", None)})
    return True


def _format_time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
