"""Leases: one process on this machine at a time may write to a follower, and notes its problem for others."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from cdc.core.errors import CdcError, HistoryLostError, PausedError, PreconditionError, RefusedError, UnreachableError
from cdc.core.fail_points import reach

COPIES: Final = ".copies"
"""The lease of whoever copies tables. No follower can have this name (`FOLLOWER_NAME`)."""
LOOK_SECONDS = 0.5
"""Longer than `Leases.is_held` holds a lease."""
HANDED_OVER: Final = PausedError("it rests while `cdc rebuild` swaps it", "it goes on by itself")
"""The note of a stream that has handed its follower over."""
_KINDS: tuple[type[CdcError], ...] = (UnreachableError, HistoryLostError, RefusedError, PausedError, PreconditionError)
"""The types that a noted problem is read back as."""


def name_rebuild(follower: str) -> str:
    """The lease of whoever rebuilds a follower, its own tables or the views."""
    return f".rebuild-{follower}"


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of this process to write to a follower. The kernel frees its lock when the process ends."""

    follower: str
    lock: Path
    identity: tuple[int, int]

    def describe_loss(self) -> RefusedError | None:
        """The error when the lock's file is not the one that this process has locked; None while it is.

        Somebody removed it then, and the next process would not be refused.
        """
        try:
            identity = _file_identity(self.lock)
        except OSError:
            identity = None
        if identity == self.identity:
            return None
        return RefusedError(
            f"the lease of follower {self.follower} is lost: {self.lock} was removed, and another `cdc follow` may"
            " have taken over",
            "let only one run",
        )

    def write_note(self, problem: CdcError | None) -> None:
        """Write down the follower's current problem, which `look` reads; None when it is over."""
        kind = next((kind for kind in _KINDS if isinstance(problem, kind)), PreconditionError)
        note = {"kind": kind.__name__, "what": problem.what, "remedy": problem.remedy} if problem else None
        # replaced in one step, so a reader sees the old note or the new one; a full disk is no reason to stop
        with suppress(OSError):
            fresh = self.lock.with_suffix(".new")
            fresh.write_text(json.dumps({"pid": os.getpid(), "problem": note}))
            fresh.replace(_note_path(self.lock))


@dataclass(frozen=True, slots=True)
class LeaseNote:
    """One look at a lease: does a process hold it, the problem `noted` last, and when, in seconds since 1970."""

    is_held: bool
    noted: CdcError | None = None
    noted_at: float | None = None

    @property
    def problem(self) -> CdcError | None:
        """The problem for which the process that follows waits; None without such a process."""
        return self.noted if self.is_held else None

    @property
    def end(self) -> CdcError | None:
        """What has ended the last holder, while nobody follows again; None for one that was told to end, or was taken
        over by another machine."""
        return None if self.is_held or isinstance(self.noted, RefusedError) else self.noted


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases of one pipeline's followers, and that of the COPIES, as files of a folder."""

    folder: Path

    @contextmanager
    def hold(self, follower: str) -> Iterator[Lease]:
        """Hold the lease of a follower, or of the COPIES, as long as the context lasts.

        Raises RefusedError when another process holds it, PreconditionError when its file cannot be made or locked.

        Across machines, Delta's conflict check, OpenSearch's versions and Kafka's fencing refuse a second writer
        (*Designing Data-Intensive Applications*, chapter 8, "Fencing tokens").
        """
        lock = self._lock_path(follower)
        with ExitStack() as held:
            try:
                lock.parent.mkdir(parents=True, exist_ok=True)
                # waits a moment: somebody may just be looking whether the lease is held
                held.enter_context(FileLock(lock, timeout=LOOK_SECONDS))
                lease = Lease(follower, lock, _file_identity(lock))
                # what ended the last holder stands until a stream runs again, and not only until somebody has tried
                lease.write_note(_read_problem(lock))
                reach("lease.taken")
            except Timeout:
                raise _refuse(follower, lock) from None
            except OSError as error:
                raise _to_precondition_error(lock, "taken", error) from None
            # outside of the translation: errors of who holds it are not the lease's
            yield lease

    def is_held(self, follower: str) -> bool:
        """Does a process on this machine hold the follower's lease?

        Asked by a shared lock, which no two who look take from each other, for a moment; `hold` waits longer. Raises
        PreconditionError when its file cannot be opened.
        """
        try:
            with self._lock_path(follower).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # a state folder that is a file holds no lease either
        except (FileNotFoundError, NotADirectoryError):
            return False
        except BlockingIOError:
            return True
        except OSError as error:
            raise _to_precondition_error(self._lock_path(follower), "read", error) from None
        return False

    def require_free(self, follower: str) -> None:
        """Raise RefusedError when another process holds the follower's lease."""
        if self.is_held(follower):
            raise _refuse(follower, self._lock_path(follower))

    def look(self, follower: str) -> LeaseNote:
        """What is noted of the follower's stream, and whether the process that noted it still follows."""
        # the note first: read after the lease, it may be the next holder's
        lock = self._lock_path(follower)
        noted, noted_at = _read_problem(lock), None
        with suppress(OSError):
            noted_at = _note_path(lock).stat().st_mtime
        return LeaseNote(self.is_held(follower), noted, noted_at)

    def _lock_path(self, follower: str) -> Path:
        return self.folder / f"{follower}.lock"


def _to_precondition_error(lock: Path, verb: str, error: OSError) -> PreconditionError:
    return PreconditionError(
        f"the lease {lock} cannot be {verb}: {error.strerror}", "correct its rights, or those of its disk"
    )


def _refuse(follower: str, lock: Path) -> RefusedError:
    holder = f"process {_read_note(lock).get('pid', '(unknown)')}"
    if follower == COPIES:
        return RefusedError(f"tables are being copied by {holder}", "wait until it is done, or stop it")
    if follower.startswith(name_rebuild("")):
        name = follower.removeprefix(name_rebuild(""))
        return RefusedError(f"{name} is being rebuilt by {holder}", "wait until it is done, or stop it")
    return RefusedError(f"follower {follower} is already being followed by {holder}", "stop that one first")


def _read_problem(lock: Path) -> CdcError | None:
    note = _read_note(lock).get("problem")
    if not note:
        return None
    kind = next((kind for kind in _KINDS if kind.__name__ == note["kind"]), PreconditionError)
    return kind(note["what"], note["remedy"])


def _note_path(lock: Path) -> Path:
    return lock.with_suffix(".json")


def _file_identity(lock: Path) -> tuple[int, int]:
    stat = lock.stat()
    return stat.st_dev, stat.st_ino


def _read_note(lock: Path) -> dict[str, Any]:
    """The holder's note; empty without one."""
    try:
        note = json.loads(_note_path(lock).read_text())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
