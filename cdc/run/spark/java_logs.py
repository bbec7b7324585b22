"""Remembers where the Java of a session writes its log, for the errors that name it. Workers of a cluster import it."""

from pathlib import Path
from typing import Any, Final

_logs: Final[dict[int, Path]] = {}


def note_log(java: Any, log: Path) -> None:
    """Remember the log of a Java that this process has started."""
    _logs[java.pid] = log


def find_log(java: Any) -> Path | None:
    """The log of a Java of this process; None when it was started by somebody else."""
    return _logs.get(java.pid)
