"""A scratch folder per process, below the state folder; a later process deletes those of killed ones."""

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
    """Open this process's scratch folder, the same one at every call; it is deleted at the end of the process.

    Also deletes folders of killed processes: nobody holds the lock in them any more.
    """
    parent = state.absolute() / FOLDER
    if parent not in _held or not _held[parent][0].exists():
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # under a lock: another process would delete a new folder before its lock is taken
        with FileLock(parent / _LOCK):
            _delete_abandoned(parent)
            folder = Path(tempfile.mkdtemp(dir=parent))
            lock = FileLock(folder / _LOCK)
            lock.acquire()
        _held[parent] = folder, lock
        # only at a regular end; after SIGKILL, the next process deletes the folder
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _held[parent][0]


def delete_scratch(state: Path) -> None:
    """Delete the folder of scratch folders, unless a process has one; then a later teardown does."""
    parent = state.absolute() / FOLDER
    if not parent.exists():
        return
    with FileLock(parent / _LOCK):
        _delete_abandoned(parent)
        if [path.name for path in parent.iterdir()] == [_LOCK]:
            shutil.rmtree(parent, ignore_errors=True)


def _delete_abandoned(parent: Path) -> None:
    for folder in (path for path in parent.iterdir() if path.is_dir()):
        try:
            with FileLock(folder / _LOCK, timeout=0):
                shutil.rmtree(folder, ignore_errors=True)
        except Timeout:
            # its process is alive
            continue
