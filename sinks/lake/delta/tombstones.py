"""Tombstones: a checkpoint's `remove` actions, which guide VACUUM (Delta protocol, "Action Reconciliation").

VACUUM deletes files older than its limit that are neither in the table nor in a tombstone. So a tombstone protects a
file only from a VACUUM whose limit lies between the file's adding and removal. Files that lived for seconds, as a busy
table's vectors do, get none: millions would fill memory and checkpoints.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from cdc.sinks.lake.delta.actions import Action, Add, Cdc, Remove, commit_time_ms, of_type

LIVED_MS: Final = 10 * 60 * 1000
"""Files removed sooner get no tombstone: a VACUUM that keeps `retention_hours` may cut its past so much too early."""

_OURS: Final = re.compile(r"(part|copy)-[0-9a-f-]{36}\.parquet")
_File = tuple[str, str | None]


class Tombstones:
    """The tombstones of one table, as far as its log was read.

    One thread adds commits while another one forgets: each loop is over a list, which is made at once.
    """

    def __init__(self) -> None:
        self._added_ms: dict[_File, int] = {}
        self._long_lived: dict[_File, Remove] = {}
        self._recent: dict[_File, Remove] = {}

    def restore(self, tombstones: Iterable[Remove]) -> None:
        self._long_lived |= {_file(remove): remove for remove in tombstones}

    def add_commit(self, actions: Sequence[Action]) -> None:
        """Note added files, and keep the tombstones of removed ones that lived long or for an unknown time."""
        now = commit_time_ms(actions)
        for remove in of_type(actions, Remove):
            file = _file(remove)
            self._recent[file] = remove
            if now - self._added_ms.pop(file, 0) > LIVED_MS:
                self._long_lived[file] = remove
        # after all removals: a new vector comes as `remove` and `add` of its file, in any order
        for add in of_type(actions, Add):
            file = _file(add)
            self._added_ms[file] = now
            # somebody's RESTORE brought it back
            self._long_lived.pop(file, None)
            self._recent.pop(file, None)
        added = {add.path for add in of_type(actions, Add)}
        for cdc in of_type(actions, Cdc):
            # change data in no data file goes with its commit
            if cdc.path not in added:
                self._recent[cdc.path, None] = Remove(cdc.path, now, data_change=False, size=cdc.size)

    def __contains__(self, path: object) -> bool:
        """Whether a file of this path may have been removed earlier. True for any path of our pattern."""
        return _OURS.fullmatch(str(path)) is not None or any(path == file for file, _ in list(self._long_lived))

    def forget(self, until_ms: float) -> None:
        """Drop tombstones up to this moment: their files are deleted."""
        for file, remove in list(self._long_lived.items()):
            if (remove.deletion_timestamp or 0) <= until_ms:
                self._long_lived.pop(file, None)

    def forget_ours(self) -> None:
        """Drop all but those of other writers' files, by which their return is known."""
        self._recent = {}
        self._long_lived = {
            file: remove for file, remove in list(self._long_lived.items()) if not _OURS.fullmatch(file[0])
        }

    def all(self) -> list[Remove]:
        """The tombstones of long-lived files."""
        return list(self._long_lived.values())

    def drain(self) -> list[Remove]:
        """The tombstones for a checkpoint made now: long-lived files, and all removed since the last checkpoint.

        With these, `vacuum` reads the checkpoint alone.
        """
        recent, self._recent = self._recent, {}
        return list((self._long_lived | recent).values())


def _file(action: Add | Remove) -> _File:
    """Identifies a file: path and vector."""
    return action.path, action.deletion_vector.unique_id if action.deletion_vector else None
