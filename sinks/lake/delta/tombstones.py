"""Tombstones: the `remove` actions that a checkpoint carries, for VACUUM (Delta protocol, "Action Reconciliation").

VACUUM deletes what is neither in the table nor in a tombstone, and was written before a moment, days ago. So a
tombstone protects a file only from a VACUUM whose moment lies between the file's coming and its going. Of what lives
for seconds, as every vector of a busy table does, none is kept: there would be millions, in memory and in each
checkpoint.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sinks.lake.delta.snapshot import Action, committed_ms

LIVED_MS: Final = 10 * 60 * 1000
"""What was in the table for a shorter time has no tombstone: a VACUUM that keeps no more than `history_hours` may end
its past by so much too early."""

_OURS: Final = re.compile(r"(part|copy)-[0-9a-f-]{36}\.parquet")
_File = tuple[str, str | None]


class Tombstones:
    """Those of one table, as far as its log was read."""

    def __init__(self) -> None:
        self._came: dict[_File, int] = {}
        self._kept: dict[_File, Action] = {}
        self._news: dict[_File, Action] = {}

    def restore(self, actions: Iterable[Action]) -> None:
        """Take in the `remove` actions of a checkpoint."""
        self._kept |= {_file(action["remove"]): action for action in actions}

    def take_in(self, actions: Sequence[Action]) -> None:
        """Note what a commit brought, and keep the tombstones of what had been there for long, or since we know not
        when."""
        now = committed_ms(actions)
        for action in actions:
            if "remove" in action:
                file = _file(action["remove"])
                self._news[file] = action
                if now - self._came.pop(file, 0) > LIVED_MS:
                    self._kept[file] = action
        for action in actions:
            if "add" in action:
                file = _file(action["add"])
                self._came[file] = now
                # brought back by somebody's RESTORE
                self._kept.pop(file, None)
                self._news.pop(file, None)
        self._news |= {(each["path"], None): _as_removed(each, now) for each in _only_changes(actions)}

    def __contains__(self, path: object) -> bool:
        """May a file of this path have been in the table, and gone? Files that are named like ours were, where they
        are no longer."""
        return _OURS.fullmatch(str(path)) is not None or any(path == file for file, _ in self._kept)

    def forget(self, until_ms: float) -> None:
        """Those of what went up to this moment are not needed any more: the files are deleted."""
        kept = self._kept.items()
        self._kept = {file: each for file, each in kept if int(each["remove"].get("deletionTimestamp") or 0) > until_ms}

    def all(self) -> list[Action]:
        """Those of what was there for long."""
        return list(self._kept.values())

    def taken(self) -> list[Action]:
        """All that goes into a checkpoint that is made now: besides, what went since the last one, however short it was
        there. So whoever forgets what leads up to it reads the checkpoint alone."""
        news, self._news = self._news, {}
        return list((self._kept | news).values())


def _only_changes(actions: Sequence[Action]) -> list[Mapping[str, Any]]:
    """Change data that is in no data file: it goes with its commit."""
    added = {action["add"]["path"] for action in actions if "add" in action}
    return [action["cdc"] for action in actions if "cdc" in action and action["cdc"]["path"] not in added]


def _as_removed(change: Mapping[str, Any], now: int) -> Action:
    return {"remove": {"path": change["path"], "deletionTimestamp": now, "dataChange": False, "size": change["size"]}}


def _file(action: Mapping[str, Any]) -> _File:
    """What actions are told apart by: a path with its vector."""
    vector = action.get("deletionVector")
    return action["path"], vector and f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"
