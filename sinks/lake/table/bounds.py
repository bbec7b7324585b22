"""How many bytes of rows one process takes at once: as they lie in the table's files, and a little for each row."""

from collections.abc import Sequence
from typing import Final

from cdc.sinks.lake.delta.actions import Action, Add, Remove
from cdc.sinks.lake.delta.snapshot import DataFile, Snapshot

ROW_BYTES: Final = 64
"""What a row takes beside its values: its place, its fingerprint, its part in masks."""


class TooManyRowsError(Exception):
    """More rows than are held at once; its text says which."""


def measure_rows(file: DataFile | None, rows: int) -> int:
    """The bytes of so many rows of a file."""
    return rows * (ROW_BYTES + (file.size // max(file.rows, 1) if file else 0))


def measure_changes(before: Snapshot, after: Snapshot, actions: Sequence[Action]) -> int:
    """The bytes of the rows that one commit deleted and added, by what the log says of its files."""
    changes = (action for action in actions if isinstance(action, Add | Remove) and action.data_change)
    return sum(_measure_file(before.files.get(path), after.files.get(path)) for path in {each.path for each in changes})


def _measure_file(before: DataFile | None, after: DataFile | None) -> int:
    was, now = before.live_rows if before else 0, after.live_rows if after else 0
    return measure_rows(after or before, abs(was - now))
