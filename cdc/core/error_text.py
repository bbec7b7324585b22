"""Picks the line of an error, a stack trace or a log that tells most: our errors have one line."""

import re
from typing import Final

LONGEST_LINE: Final = 300
_CAUSE: Final = "Caused by:"
_PYTHON_ERROR: Final = re.compile(r"[A-Za-z_.]+(Error|Exception)\b.*:")
_LOGGED_ERROR: Final = re.compile(
    r"\b(FATAL|PANIC|ERROR|Caused by|Exception|OutOfMemoryError)\b|error:|could not|invalid|unrecognized"
)
# a stack trace's frames name exceptions too; Postgres says last that its configuration "contains errors"
_NOISE: Final = re.compile(r"^\s*at |^\s*\.\.\. \d+ more|Suppressed:|contains errors$")


def pick_first_line(error: object) -> str:
    """The first line of an error's text; the name of its type if it has none."""
    return next(iter(_lines(str(error))), type(error).__name__)


def pick_root_cause(trace: str) -> str:
    """The innermost cause of a Java stack trace, the end of a Python traceback, or the first line; "" of no text."""
    lines = _lines(trace)
    if causes := [line for line in lines if line.startswith(_CAUSE)]:
        # Java prints the outermost error first, and its cause's cause last
        return causes[-1].removeprefix(_CAUSE).strip()[:LONGEST_LINE]
    if any(line.startswith("Traceback") for line in lines):
        # Python prints the error below its frames
        return next((line for line in reversed(lines) if _PYTHON_ERROR.match(line)), lines[-1])[:LONGEST_LINE]
    return lines[0][:LONGEST_LINE] if lines else ""


def pick_last_error(log: str) -> str:
    """The line of a log that has the reason of its end: the last cause, else the last error, else the last line."""
    lines = [line for line in _lines(log) if not _NOISE.search(line)]
    causes = [line for line in lines if line.startswith(_CAUSE)]
    errors = [line for line in lines if _LOGGED_ERROR.search(line)]
    # a cause says more than the error that wraps it, and both stand in the log
    return next(iter((causes or errors or lines)[-1:]), "it wrote nothing")[:LONGEST_LINE]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
