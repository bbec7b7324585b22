"""Sessions of a Postgres whose main process was killed: until the last one has ended, no server starts on its data."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from cdc.core.errors import PreconditionError
from cdc.core.waiting import Deadline

LEFT_SECONDS: Final = 60.0
_POLL: Final = 0.1


def await_left_sessions(data: Path) -> None:
    """Wait until none is left. An idle one ends at once; one that computes, when it next waits for something.

    Raises PreconditionError with their processes when some outlast LEFT_SECONDS.
    """
    deadline = Deadline(LEFT_SECONDS)
    while left := [*_find_left(data)]:
        if deadline.is_past:
            pids = " ".join(map(str, sorted(left)))
            raise PreconditionError(
                f"postgres did not start: sessions of its earlier life still run (processes {pids})",
                f"end them (kill {pids}), then start again",
            )
        time.sleep(_POLL)


def _find_left(data: Path) -> Iterator[int]:
    for process in psutil.process_iter():
        # it has ended meanwhile, or is somebody else's
        with suppress(psutil.Error):
            if _is_session(process) and Path(process.cwd()) == data and not _is_server(process.parent()):
                yield process.pid


def _is_session(process: psutil.Process) -> bool:
    # each names itself `postgres: user database ...`, and works in the data folder
    return process.name().startswith("postgres") and " ".join(process.cmdline()).startswith("postgres:")


def _is_server(process: psutil.Process | None) -> bool:
    return process is not None and process.name().startswith("postgres")
