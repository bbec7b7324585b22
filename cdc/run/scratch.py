"""Where a process puts what it needs only while it runs: below the state folder, cleared by the next one."""

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

FOLDER: Final = "tmp"
_LOCK: Final = ".lock"
_held: dict[Path, tuple[Path, FileLock]] = {}


def open_scratch(state: Path) -> Path:
    """A folder of this process alone below a state folder, the same at every call; it goes with the process.

    What processes have left that were killed is removed: the lock in a folder went with the process that had it.
    """
    parent = state.absolute() / FOLDER
    if parent not in _held or not _held[parent][0].exists():
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # alone: a folder whose lock is not taken yet looks like one that was left
        with FileLock(parent / _LOCK):
            _delete_abandoned(parent)
            folder = Path(tempfile.mkdtemp(dir=parent))
            lock = FileLock(folder / _LOCK)
            lock.acquire()
        _held[parent] = folder, lock
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _held[parent][0]


def _delete_abandoned(parent: Path) -> None:
    for folder in (path for path in parent.iterdir() if path.is_dir()):
        try:
            with FileLock(folder / _LOCK, timeout=0):
                shutil.rmtree(folder, ignore_errors=True)
        except Timeout:
            # its process lives
            continue
