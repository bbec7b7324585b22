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
_TRACEBACK: Final = "Traceback (most recent call last)"
_CALL: Final = "An error occurred while calling"
"""How py4j begins: the name of a method, and Java's stack trace from the next line on, which begins with a colon."""
_NOISE: Final = re.compile(r"^\s*at |^\s*\.\.\. \d+ more|Suppressed:|contains errors$")


def pick_first_line(error: object) -> str:
    """The first line of an error's text; the name of its type if it has none."""
    return next(iter(_lines(str(error))), type(error).__name__)


def pick_root_cause(trace: str) -> str:
    """The innermost cause of a Java stack trace, the end of a Python traceback, or the first line; "" of no text.

    A line that ends with a colon is told with the next one: Spark writes the cause there.
    """
    lines = _join_opened(_lines(trace))
    cause = next((at for at in reversed(range(len(lines))) if lines[at].startswith(_CAUSE)), -1)
    python = next((at for at in reversed(range(len(lines))) if _TRACEBACK in lines[at]), -1)
    if python >= max(cause, 0):
        # Python prints the error below its frames
        behind = lines[python + 1 :] or lines
        return next((line for line in reversed(behind) if _PYTHON_ERROR.match(line)), behind[-1])[:LONGEST_LINE]
    if cause >= 0:
        # Java prints the outermost error first, and its cause's cause last
        return lines[cause].removeprefix(_CAUSE).strip()[:LONGEST_LINE]
    if len(lines) > 1 and lines[0].startswith(_CALL):
        return lines[1].removeprefix(":").strip()[:LONGEST_LINE]
    return lines[0][:LONGEST_LINE] if lines else ""


def pick_last_error(log: str) -> str:
    """The line of a log that has the reason of its end: the last cause, else the last error, else the last line."""
    lines = [line for line in _lines(log) if not _NOISE.search(line)]
    causes = [line for line in lines if line.startswith(_CAUSE)]
    errors = [line for line in lines if _LOGGED_ERROR.search(line)]
    # a cause says more than the error that wraps it, and both stand in the log
    return next(iter((causes or errors or lines)[-1:]), "it wrote nothing")[:LONGEST_LINE]


def _join_opened(lines: list[str]) -> list[str]:
    """The lines; to one that ends with a colon belong those behind it, up to the first that does not."""
    joined = list[str]()
    for line in lines:
        opened = bool(joined) and joined[-1].endswith(":") and _TRACEBACK not in joined[-1]
        if opened and not _NOISE.search(line):
            joined[-1] = f"{joined[-1]} {line}"
        else:
            joined.append(line)
    return joined


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
