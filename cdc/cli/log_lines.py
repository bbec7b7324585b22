"""The lines of a verb that runs for long: with time and level, for people or as JSON.

By the standard library's logging: a handler on stderr, and a formatter.
"""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, TextIO

from cdc.core.lines import ErrorLine, WarningLine

# made here, not by `getLogger`: while PySpark makes a logger of its own, others get its class, which writes JSON
LOG: Final = logging.Logger("cdc.follow")


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class TextFormatter(logging.Formatter):
    """`2026-03-14T02:48:05.123Z WARNING search: OpenSearch does not answer`, in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_format_time(record)} {record.levelname:<7} {record.getMessage()}"


class JsonFormatter(logging.Formatter):
    """One object a line: `at`, `level`, `message`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"at": _format_time(record), "level": record.levelname.lower(), "message": record.getMessage()}
        return json.dumps(line, ensure_ascii=False)


def begin_log(log_format: LogFormat, others: Path) -> None:
    """Let `log_line` write in this format.

    As JSON, no other line comes to stderr from here on: what Java and clients of Kafka write there goes to the file
    `others`.
    """
    stream: TextIO = sys.stderr
    if log_format is LogFormat.JSON:
        stream = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", buffering=1)
        with _open(others) as file:
            os.dup2(file.fileno(), sys.stderr.fileno())
    end_log()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    LOG.addHandler(handler)


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


def log_line(text: str) -> bool:
    """Write a line with its level; returns False, and does nothing, while no log has begun."""
    if not LOG.handlers:
        return False
    levels = {WarningLine: logging.WARNING, ErrorLine: logging.ERROR}
    LOG.log(next((level for kind, level in levels.items() if isinstance(text, kind)), logging.INFO), "%s", text)
    return True


def _format_time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
