"""A batch of one table's changes, folded into its net effect a key.

Log compaction does the same to a topic (*Designing Data-Intensive Applications*, ch. 11): of many values of a key, the
last. What it cannot do is here: values that were not sent, rows whose key changed, and TRUNCATE.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cdc.core.change import UNCHANGED, Change, Delete, Insert, Key, Row, SentRow, Truncate, Update


@dataclass(frozen=True, slots=True)
class Upsert:
    """The row that a key ends with; its UNCHANGED values are those of `base`'s row as it was before the batch."""

    row: SentRow
    base: Key | None


@dataclass(frozen=True, slots=True)
class Remove:
    """The key ends without a row."""


@dataclass(frozen=True, slots=True)
class Net:
    """A batch's net effect; when `truncated`, every row from before the batch is gone first."""

    effects: dict[Key, Upsert | Remove] = field(default_factory=dict)
    truncated: bool = False


def collapse(changes: Iterable[Change]) -> Net:
    """Fold the changes of one table, in order and whole transactions, into one effect a key."""
    folding = _Folding()
    for change in changes:
        folding.take(change)
    return Net(folding.effects, folding.truncated)


def apply_net(rows: dict[Key, Row], net: Net) -> dict[Key, Row]:
    """The rows after the batch; equals applying its changes one by one."""
    after = {} if net.truncated else dict(rows)
    for key, effect in net.effects.items():
        if isinstance(effect, Remove):
            after.pop(key, None)
        else:
            after[key] = _filled(effect, rows)
    return after


def _filled(effect: Upsert, before: dict[Key, Row]) -> Row:
    base = before.get(effect.base, {}) if effect.base is not None else {}
    return {name: base.get(name) if value is UNCHANGED else value for name, value in effect.row.items()}


class _Folding:
    def __init__(self) -> None:
        self.effects: dict[Key, Upsert | Remove] = {}
        self.truncated = False
        self._moving: dict[Key, Upsert] = {}

    def take(self, change: Change) -> None:
        match change:
            case Insert(key=key, row=row, moved_from=None):
                self.effects[key] = Upsert(row, None)
            case Insert(key=key, row=row, moved_from=old):
                self.effects[key] = _over(self._moving.pop(key, Upsert({}, old)), row)
            case Update(key=key, row=row):
                self.effects[key] = _over(self._current(key), row)
            case Delete(key=key, moved_to=new):
                if new is not None:
                    self._moving[new] = self._current(key)
                self.effects[key] = Remove()
            case Truncate():
                self.effects.clear()
                self.truncated = True

    def _current(self, key: Key) -> Upsert:
        effect = self.effects.get(key)
        if isinstance(effect, Upsert):
            return effect
        return Upsert({}, None if self.truncated else key)


def _over(older: Upsert, row: SentRow) -> Upsert:
    kept = {name: older.row.get(name, UNCHANGED) if value is UNCHANGED else value for name, value in row.items()}
    return Upsert(kept, older.base)
