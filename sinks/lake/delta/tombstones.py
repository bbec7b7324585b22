"""Tombstones: a checkpoint's `remove` actions, which guide VACUUM (Delta protocol, "Action Reconciliation").

VACUUM deletes files older than its limit that are neither in the table nor in a tombstone. So a tombstone protects a
file only from a VACUUM whose limit lies between the file's adding and removal. Files that lived for seconds, as a busy
table's vectors do, get none: millions would fill memory and checkpoints.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sinks.lake.delta.snapshot import Action, commit_time_ms

LIVED_MS: Final = 10 * 60 * 1000
"""Files removed sooner get no tombstone: a VACUUM that keeps only `history_hours` may cut its past this much too early.
"""

_OURS: Final = re.compile(r"(part|copy)-[0-9a-f-]{36}\.parquet")
_File = tuple[str, str | None]


class Tombstones:
    """The tombstones of one table, as far as its log was read."""

    def __init__(self) -> None:
        self._added_ms: dict[_File, int] = {}
        self._long_lived: dict[_File, Action] = {}
        self._recent: dict[_File, Action] = {}

    def restore(self, actions: Iterable[Action]) -> None:
        """Load a checkpoint's `remove` actions."""
        self._long_lived |= {_file(action["remove"]): action for action in actions}

    def add_commit(self, actions: Sequence[Action]) -> None:
        """Note added files, and keep the tombstones of removed ones that lived long or for an unknown time."""
        now = commit_time_ms(actions)
        for action in actions:
            if "remove" in action:
                file = _file(action["remove"])
                self._recent[file] = action
                if now - self._added_ms.pop(file, 0) > LIVED_MS:
                    self._long_lived[file] = action
        for action in actions:
            if "add" in action:
                file = _file(action["add"])
                self._added_ms[file] = now
                # somebody's RESTORE brought it back
                self._long_lived.pop(file, None)
                self._recent.pop(file, None)
        self._recent |= {(change["path"], None): _as_removed(change, now) for change in _pure_change_data(actions)}

    def __contains__(self, path: object) -> bool:
        """Whether a file of this path may have been removed earlier. True for any path of our pattern."""
        return _OURS.fullmatch(str(path)) is not None or any(path == file for file, _ in self._long_lived)

    def forget(self, until_ms: float) -> None:
        """Drop tombstones up to this moment: their files are deleted."""
        tombstones = self._long_lived.items()
        self._long_lived = {
            file: action
            for file, action in tombstones
            if int(action["remove"].get("deletionTimestamp") or 0) > until_ms
        }

    def all(self) -> list[Action]:
        """The tombstones of long-lived files."""
        return list(self._long_lived.values())

    def drain(self) -> list[Action]:
        """The tombstones for a checkpoint made now: long-lived files, and all removed since the last checkpoint.

        With these, `vacuum` reads the checkpoint alone.
        """
        news, self._recent = self._recent, {}
        return list((self._long_lived | news).values())


def _pure_change_data(actions: Sequence[Action]) -> list[Mapping[str, Any]]:
    """Change data in no data file: it goes with its commit."""
    added = {action["add"]["path"] for action in actions if "add" in action}
    return [action["cdc"] for action in actions if "cdc" in action and action["cdc"]["path"] not in added]


def _as_removed(change: Mapping[str, Any], now: int) -> Action:
    return {"remove": {"path": change["path"], "deletionTimestamp": now, "dataChange": False, "size": change["size"]}}


def _file(action: Mapping[str, Any]) -> _File:
    """Identifies a file: path and vector."""
    vector = action.get("deletionVector")
    return action["path"], vector and f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"
