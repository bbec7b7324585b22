"""The process of a service: started in a session of its own, found again by pid and start time, stopped."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import psutil

from cdc.core.errors import PreconditionError
from cdc.core.waiting import Deadline
from cdc.local.running.class_archive import ClassArchive
from cdc.local.state.files import write
from cdc.local.state_dir import Home

_LONGEST_LOG: Final = 20_000_000
# the start time is counted from the boot time, which moves a little when the clock is corrected
_SAME_START: Final = 5.0
_LAST_WORDS: Final = 5.0
_FIRST_LOOK, _LATER_LOOKS = 0.02, 0.3


@dataclass(frozen=True, slots=True)
class User:
    """The user of a process, if it is not ours."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the process of `part`."""

    part: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path("/")
    user: User | None = None
    archive: ClassArchive | None = None


class _Record(msgspec.Struct, omit_defaults=True):
    """The note of a process. `archive`: of its classes, where it writes one: the final path, and that of the writer."""

    pid: int
    created: float
    archive: tuple[str, str] | None = None


def spawn(home: Home, launch: Launch) -> psutil.Process:
    """Start `launch` in a session of its own, its output appended to the part's log, and note its process."""
    log = home.log(launch.part)
    # only between two lives: a process that runs keeps writing into the file that it has open
    if log.exists() and log.stat().st_size > _LONGEST_LOG:
        log.replace(log.with_suffix(".log.1"))
    with log.open("ab") as output:
        # a session of its own: Ctrl-C at a terminal goes to the whole foreground group, and would end the part as well
        started = subprocess.Popen(  # noqa: S603
            launch.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **launch.environment},
            cwd=launch.folder,
            start_new_session=True,
            user=launch.user.uid if launch.user else None,
            group=launch.user.gid if launch.user else None,
            extra_groups=[] if launch.user else None,
        )
    process = psutil.Process(started.pid)
    # a kill before this line leaves an unknown process; the next `up` names it as its port's holder
    _write_record(home, launch, process)
    # it outlives us on purpose: tell Popen not to warn that it still runs
    started.returncode = 0
    return process


def _write_record(home: Home, launch: Launch, process: psutil.Process) -> None:
    record = _Record(process.pid, process.create_time())
    if launch.archive is not None and not launch.archive.is_there:
        record.archive = (str(launch.archive.path), str(launch.archive.own))
    write(home.record(launch.part), msgspec.json.encode(record).decode() + "\n")


def _read_record(home: Home, part: str) -> _Record:
    return msgspec.json.decode(home.record(part).read_bytes(), type=_Record)


def find(home: Home, part: str) -> psutil.Process | None:
    """The process that runs `part` in `home`, None if there is none or its pid belongs to another one now."""
    try:
        record = _read_record(home, part)
        process = psutil.Process(record.pid)
        ours = abs(process.create_time() - record.created) < _SAME_START
    # a ValueError: a pid below 0, or text that is no UTF-8
    except (FileNotFoundError, msgspec.DecodeError, ValueError, psutil.NoSuchProcess):
        return None
    return process if ours and is_alive(process) else None


def is_alive(process: psutil.Process) -> bool:
    """Does `process` run? A child of ours that has ended is waited for, so that no zombie stays."""
    try:
        # a zombie with threads still ends: its ports and files are not free yet
        if process.is_running() and (process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1):
            return True
        process.wait(timeout=0)
    except (psutil.NoSuchProcess, psutil.TimeoutExpired, FileNotFoundError):
        # the last: pidfd_open says so of one that is going now (seen on Linux 6.18), and psutil does not know that
        pass
    return False


def resident_bytes(process: psutil.Process) -> int:
    """The resident memory of `process` and its children; 0 if it ends meanwhile."""
    try:
        return sum(found.memory_info().rss for found in (process, *process.children(recursive=True)))
    except psutil.NoSuchProcess:
        return 0


def stop(home: Home, part: str, with_signal: signal.Signals, patience: float) -> bool:
    """End the process of `part` and its children, by force after `patience` seconds; False if none runs.

    One that ends by itself meanwhile has been stopped, too. PreconditionError if the process belongs to another user.
    """
    process = find(home, part)
    if process is not None:
        try:
            # Java writes its archive when it ends by itself, never when it is killed
            if _end(process, with_signal, patience):
                _keep_archive(home, part)
        except psutil.AccessDenied as refused:
            raise PreconditionError(
                f"{part} (pid {process.pid}) runs as {_owner(process)}", "stop it as that user, or as root"
            ) from refused
    home.record(part).unlink(missing_ok=True)
    return process is not None


def _keep_archive(home: Home, part: str) -> None:
    if archive := _read_record(home, part).archive:
        ClassArchive(*map(Path, archive)).keep()


def _end(process: psutil.Process, with_signal: signal.Signals, patience: float) -> bool:
    """End a process and its children; returns whether it ended before it was killed."""
    # asked while it lives: children that outlive their parent are no longer found as its own
    family = [process, *_children(process)]
    with suppress(psutil.NoSuchProcess):
        process.send_signal(with_signal)
    alive = wait_for_exit(patience, [process])
    by_itself = not alive
    # children that their parent has not taken with it: a killed Postgres leaves its backends
    alive += wait_for_exit(0 if alive else _LAST_WORDS, family[1:])
    for survivor in alive:
        with suppress(psutil.NoSuchProcess):
            survivor.kill()
    wait_for_exit(_LAST_WORDS, alive)
    return by_itself


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found


def _owner(process: psutil.Process) -> str:
    try:
        return str(process.username())
    except psutil.NoSuchProcess:
        return "another user"


def wait_for_exit(patience: float, watched: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Wait until all have ended, at most `patience` seconds; returns those that still run.

    Not psutil.wait_procs: it also waits until somebody has taken notice of the end, and a slow init does that late.
    """
    deadline, pause = Deadline(patience), _FIRST_LOOK
    while (alive := [found for found in watched if is_alive(found)]) and not deadline.is_past:
        time.sleep(pause)
        # seldom, if it takes long: on a busy machine, every look takes CPU from the processes that are to end
        pause = min(1.2 * pause, _LATER_LOOKS)
    return alive
