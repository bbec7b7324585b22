"""Explains in one line of its log why a service did not start."""

import re
from pathlib import Path
from typing import Final

from cdc.core.errors import PreconditionError, UnreachableError

_FULL: Final = re.compile(r"No space left on device", re.IGNORECASE)
_TELLING: Final = re.compile(
    r"\b(FATAL|PANIC|ERROR|Caused by|Exception|OutOfMemoryError)\b|error:|could not|invalid|unrecognized"
)
# a stack trace's frames name exceptions too; Postgres says last that its configuration "contains errors"
_NOISE: Final = re.compile(r"^\s*at |^\s*\.\.\. \d+ more|Suppressed:|contains errors$")
_LONGEST: Final = 300


def telling_line(text: str) -> str:
    """The line of `text` that most likely has the reason: the last cause, else the last error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _NOISE.search(line)]
    causes = [line for line in lines if line.startswith("Caused by")]
    errors = [line for line in lines if _TELLING.search(line)]
    return next(iter((causes or errors or lines)[-1:]), "it wrote nothing")[:_LONGEST]


def startup_error(part: str, log: Path, offset: int) -> PreconditionError:
    """The error for `part` whose process ended while starting; `offset` is where this start begins in `log`."""
    written = read_from(log, offset)
    if _FULL.search(written):
        return PreconditionError(f"{part} did not start: the disk is full", f"free space; the log is {log}")
    return PreconditionError(f"{part} did not start: {telling_line(written)}", f"see {log}")


def command_error(part: str, doing: str, output: str) -> PreconditionError:
    """The error for `part` when the command that does `doing` has failed with this output."""
    if _FULL.search(output):
        return PreconditionError(f"{part}: {doing} failed: the disk is full", "free space, then start again")
    return PreconditionError(f"{part}: {doing} failed: {telling_line(output)}", "remove the cause, then start again")


def timeout_error(part: str, log: Path, offset: int, patience: float) -> UnreachableError:
    """The error for `part` that runs and does not answer; it has been stopped again."""
    line = telling_line(read_from(log, offset))
    return UnreachableError(
        f"{part} did not answer within {patience:.0f} s; last in its log: {line}", f"start again, or see {log}"
    )


def size(log: Path) -> int:
    """How long `log` is now; 0 if there is none."""
    return log.stat().st_size if log.exists() else 0


def read_from(log: Path, offset: int) -> str:
    """Read `log` from `offset`; from its beginning if a shorter file has replaced it."""
    with log.open("rb") as file:
        file.seek(offset if offset <= size(log) else 0)
        return file.read().decode(errors="replace")
