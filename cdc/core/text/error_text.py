"""Picks the line of an error, a stack trace or a log that tells most: our errors have one line."""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

LONGEST_LINE: Final = 300
_CAUSE: Final = "Caused by:"
_CALLED: Final = re.compile(r"An error occurred while calling \S+$")
"""What py4j says before the error of a call to Java, whose text is on the next line, behind a colon."""
_END_OF_CAUSE: Final = re.compile(r"at \S+(\(|$)|\.\.\. \d+ more|Caused by:|Driver stacktrace:|PYTHONPATH was:")
"""What ends the text of a cause: its frames, or what Spark tells of the worker whose Python has failed."""
_PYTHON_ERROR: Final = re.compile(r"[A-Za-z_.]+(Error|Exception)\b.*:")
_LOGGED_ERROR: Final = re.compile(
    r"\b(FATAL|PANIC|ERROR|Caused by|Exception|OutOfMemoryError)\b|error:|could not|invalid|unrecognized"
)
# a stack trace's frames name exceptions too; Postgres says last that its configuration "contains errors"
_TRACEBACK: Final = "Traceback (most recent call last)"
_NOISE: Final = re.compile(r"^\s*at |^\s*\.\.\. \d+ more|Suppressed:|contains errors$")


def pick_first_line(error: object) -> str:
    """The first line of an error's text; the name of its type if it has none."""
    return next(iter(_lines(str(error))), type(error).__name__)


def pick_root_cause(trace: str) -> str:
    """The innermost cause of a Java stack trace, the end of a Python traceback, or the first line; "" of no text."""
    lines = _lines(trace)
    causes = [at for at, line in enumerate(lines) if line.startswith(_CAUSE)]
    python = max((at for at, line in enumerate(lines) if line.startswith(_TRACEBACK)), default=-1)
    if python > max(causes, default=-1):
        # Python prints the error below its frames
        behind = lines[python:]
        return next((line for line in reversed(behind) if _PYTHON_ERROR.match(line)), behind[-1])[:LONGEST_LINE]
    if causes:
        # Java prints the outermost error first, and its cause's cause last; one without a text says nothing
        texts = [_read_cause(lines, at) for at in reversed(causes)]
        return next((text for text in texts if not text.endswith(":")), texts[0].rstrip(":"))[:LONGEST_LINE]
    if len(lines) > 1 and _CALLED.match(lines[0]):
        return _read_cause(lines, 1).removeprefix(":").strip(" :")[:LONGEST_LINE]
    return lines[0][:LONGEST_LINE] if lines else ""


def _read_cause(lines: Sequence[str], at: int) -> str:
    """A cause, with the first and the last line below it where its own line has a type and no text."""
    cause = lines[at].removeprefix(_CAUSE).strip()
    if not cause.endswith(":"):
        return cause
    below = list(takewhile(lambda line: not _END_OF_CAUSE.match(line), lines[at + 1 :]))
    if _TRACEBACK in cause and below:
        # Python prints the error below its frames
        return below[-1]
    return " ".join([cause, *dict.fromkeys([*below[:1], *below[-1:]])])


def pick_last_error(log: str) -> str:
    """The line of a log that has the reason of its end: the last cause, else the last error, else the last line."""
    lines = [line for line in _lines(log) if not _NOISE.search(line)]
    causes = [line for line in lines if line.startswith(_CAUSE)]
    errors = [line for line in lines if _LOGGED_ERROR.search(line)]
    # a cause says more than the error that wraps it, and both stand in the log
    return next(iter((causes or errors or lines)[-1:]), "it wrote nothing")[:LONGEST_LINE]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
