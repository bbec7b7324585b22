"""Who may write to a follower: one process on this machine at a time."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError, HistoryLostError, PreconditionError, RefusedError, UnreachableError

LOOK_SECONDS = 0.5
"""Longer than somebody who only looks holds a lease."""
_KINDS: tuple[type[CdcError], ...] = (UnreachableError, HistoryLostError, RefusedError, PreconditionError)
"""What a problem in another process is told as."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to a follower, held by this process; the lock goes with the process."""

    follower: str
    lock: Path
    identity: tuple[int, int]

    def describe_loss(self) -> RefusedError | None:
        """What to tell when the lock's file is not the one that is held: whoever comes next would not be refused."""
        try:
            found = _file_identity(self.lock)
        except OSError:
            found = None
        if found == self.identity:
            return None
        return RefusedError(
            f"the lease of follower {self.follower} is lost: {self.lock} was removed, and another `cdc follow` may"
            " have taken over",
            "let only one run",
        )

    def write_note(self, problem: CdcError | None) -> None:
        """Write down what keeps the follower from going on, for whoever asks how it stands; None when it is over."""
        told = (
            {"kind": _nearest_kind(problem).__name__, "what": problem.what, "remedy": problem.remedy}
            if problem
            else None
        )
        # whoever looks reads the old note or the new one; and a disk that is full is no reason to stop
        with suppress(OSError):
            fresh = self.lock.with_suffix(".new")
            fresh.write_text(json.dumps({"pid": os.getpid(), "problem": told}))
            fresh.replace(_note_path(self.lock))


@contextmanager
def hold_lease(settings: PipelineSettings, follower: str) -> Iterator[Lease]:
    """Be the only one on this machine that writes to a follower.

    Across machines, Delta's own conflict check, OpenSearch's versions and Kafka's fencing refuse a second writer
    (*Designing Data-Intensive Applications*, chapter 8, "Fencing tokens"). Raises RefusedError when somebody has it.
    """
    lock = _lock_path(settings, follower)
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=LOOK_SECONDS):
            held = Lease(follower, lock, _file_identity(lock))
            # a killed holder leaves this note but not the lock, which is the kernel's
            held.write_note(None)
            yield held
    except Timeout:
        raise RefusedError(
            f"follower {follower} is already being followed by process {_read_note(lock).get('pid', '(unknown)')}",
            "stop that one first",
        ) from None


def is_lease_held(settings: PipelineSettings, follower: str) -> bool:
    """Does anybody on this machine hold the follower's lease? Looking takes it for a moment; `lease` waits longer."""
    lock = _lock_path(settings, follower)
    # whoever looks leaves nothing behind: FileLock makes its file
    if not lock.exists():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


def read_problem(settings: PipelineSettings, follower: str) -> CdcError | None:
    """What keeps the follower from going on, by whoever follows it on this machine; None where nobody does."""
    # first the note: one that is read behind the question may be another holder's
    told = _read_note(_lock_path(settings, follower)).get("problem")
    if not told or not is_lease_held(settings, follower):
        return None
    kind = next((kind for kind in _KINDS if kind.__name__ == told["kind"]), PreconditionError)
    return kind(told["what"], told["remedy"])


def _nearest_kind(problem: CdcError) -> type[CdcError]:
    return next((kind for kind in _KINDS if isinstance(problem, kind)), PreconditionError)


def _lock_path(settings: PipelineSettings, follower: str) -> Path:
    return Path(settings.pipeline.state) / "leases" / settings.pipeline.name / f"{follower}.lock"


def _note_path(lock: Path) -> Path:
    return lock.with_suffix(".json")


def _file_identity(lock: Path) -> tuple[int, int]:
    found = lock.stat()
    return found.st_dev, found.st_ino


def _read_note(lock: Path) -> dict[str, Any]:
    """What the holder has written down; nothing where nobody has."""
    try:
        found = json.loads(_note_path(lock).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
