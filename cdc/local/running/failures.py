"""Explains in one line of its log why a service did not start."""

import re
import time
from math import inf
from pathlib import Path
from typing import Final

from cdc.core.errors import PreconditionError, UnreachableError
from cdc.core.text.error_text import pick_last_error

_FULL: Final = re.compile(r"No space left on device", re.IGNORECASE)


def startup_error(part: str, log: Path, offset: int) -> PreconditionError:
    """The error for `part` whose process ended while starting; `offset` is where this start begins in `log`."""
    written = read_from(log, offset)
    if _FULL.search(written):
        return PreconditionError(f"{part} did not start: the disk is full", f"free space; the log is {log}")
    return PreconditionError(f"{part} did not start: {pick_last_error(written)}", f"see {log}")


def command_error(part: str, doing: str, output: str) -> PreconditionError:
    """The error for `part` when the command that does `doing` has failed with this output."""
    if _FULL.search(output):
        return PreconditionError(f"{part}: {doing} failed: the disk is full", "free space, then start again")
    return PreconditionError(f"{part}: {doing} failed: {pick_last_error(output)}", "remove the cause, then start again")


def timeout_error(part: str, log: Path, offset: int, waited: float) -> UnreachableError:
    """The error for `part` that runs and has not answered for `waited` seconds."""
    line = pick_last_error(read_from(log, offset))
    return UnreachableError(
        f"{part} did not answer within {waited:.0f} s; last in its log: {line}", f"start again, or see {log}"
    )


def count_silence(log: Path) -> float:
    """The seconds since something was last written to `log`; since ever if there is none."""
    return time.time() - log.stat().st_mtime if log.exists() else inf


def size(log: Path) -> int:
    """How long `log` is now; 0 if there is none."""
    return log.stat().st_size if log.exists() else 0


def read_from(log: Path, offset: int) -> str:
    """Read `log` from `offset`; from its beginning if a shorter file has replaced it."""
    with log.open("rb") as file:
        file.seek(offset if offset <= size(log) else 0)
        return file.read().decode(errors="replace")
