"""Starts several services in parallel, and waits until each answers."""

import errno
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import psutil

from cdc.core.errors import PreconditionError
from cdc.local.endpoints import Service
from cdc.local.running import failures, processes
from cdc.local.running.processes import Launch
from cdc.local.state_dir import Home
from cdc.progress import Progress

_PATIENCE: Final = 120.0
"""For an answer, and for another line in its log: a search node needs minutes beside 1,500 transactions a second."""
_LONGEST: Final = 600.0
"""For an answer, however much it writes."""
_POLL: Final = 0.1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A service to start: the services it needs, its process, and its readiness check."""

    part: Service
    needs: tuple[Service, ...]
    launch: Callable[[], Launch]
    answers: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class _Started:
    candidate: Candidate
    process: psutil.Process
    since: float
    log_offset: int


def start(home: Home, candidates: Sequence[Candidate], progress: Progress) -> None:
    """Start the candidates that do not run, in their order, and return when all of them answer.

    Raises the error of the first service that ends or is late; the others stay as they are.
    """
    waiting, started, ready = list(candidates), list[_Started](), set[Service]()
    while waiting or started:
        for candidate in [found for found in waiting if ready.issuperset(found.needs)]:
            waiting.remove(candidate)
            started.append(_start(home, candidate, progress))
        for each in [found for found in started if _has_come_up(home, found)]:
            started.remove(each)
            ready.add(each.candidate.part)
            progress.step(each.candidate.part, f"ready after {time.monotonic() - each.since:.1f} s")
        if started:
            time.sleep(_POLL)


def _start(home: Home, candidate: Candidate, progress: Progress) -> _Started:
    # before the start: an error further up in the log belongs to an earlier life
    since, offset = time.monotonic(), failures.size(home.log(candidate.part))
    process = processes.find(home, candidate.part)
    if process is None:
        progress.step(candidate.part, "starting")
        try:
            process = processes.spawn(home, candidate.launch())
        except OSError as failure:
            raise _cannot_start(home, candidate.part, failure) from failure
    return _Started(candidate, process, since, offset)


def _cannot_start(home: Home, part: Service, failure: OSError) -> PreconditionError:
    if failure.errno == errno.ENOSPC:
        return PreconditionError(f"{part} did not start: the disk that holds {home.path} is full", "free space")
    return PreconditionError(f"{part} did not start: {failure}", f"check the folder {home.path}")


def _has_come_up(home: Home, found: _Started) -> bool:
    part, log = found.candidate.part, home.log(found.candidate.part)
    # before the question: another process may answer where this one could not
    if not processes.is_alive(found.process):
        raise failures.startup_error(part, log, found.log_offset)
    if found.candidate.answers():
        return True
    waited = time.monotonic() - found.since
    if waited > _LONGEST or min(waited, failures.count_silence(log)) > _PATIENCE:
        # before its end, of which it writes as well
        late = failures.timeout_error(part, log, found.log_offset, waited)
        # else the next `up` would find it running, and wait for it again
        processes.stop(home, part, signal.SIGTERM, patience=10)
        raise late
    return False
