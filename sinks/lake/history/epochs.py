"""The epochs of a table's history: one Delta table each, as they lie in the lake.

A row of the past is never written again in another shape. When the rows of a table cannot stand beside those of its
history any more, the history goes on in a new epoch, a table of its own beside the old one.
"""

from dataclasses import dataclass
from typing import Final

from cdc.core.errors import PreconditionError, TableLostError
from cdc.core.table import Table, TableName
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.damage import loss_reason
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.history.facts import HistoryFacts, read_facts
from cdc.sinks.lake.history.shape import history_name
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cut

GONE: Final = "it is gone from the lake"
_LOOK_AHEAD: Final = 2
"""Numbers behind the last known epoch at which to look for another."""


@dataclass(frozen=True, slots=True)
class OpenEpoch:
    """An epoch that can be read. `table`: its columns are all that the tracked table had in it."""

    log: DeltaLog
    table: Table
    facts: HistoryFacts


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of a history; `opened` is None when it cannot be read, for the reason `why`."""

    number: int
    name: TableName
    opened: OpenEpoch | None
    why: str = ""


def list_epochs(lake: Lake, tracked: TableName, cut: Cut | None) -> list[Epoch]:
    """The epochs of a table's history, in order; `cut` names those that should be there.

    One that is gone, damaged or put back to an older state than the cut's is there as not readable. So is whatever else
    lies where the history should be.
    """
    found = dict[int, Epoch]()
    named, number = _last_named(tracked, cut), 1
    # one further: somebody may have removed one in between
    while number <= max([named, *found]) + _LOOK_AHEAD:
        if epoch := _find(lake, tracked, number, cut):
            found[number] = epoch
        number += 1
    last = max([named, *found])
    return [found.get(n) or Epoch(n, history_name(tracked, n), None, GONE) for n in range(1, last + 1)]


def _last_named(tracked: TableName, cut: Cut | None) -> int:
    """The highest number of an epoch that the cut names; 0 if it names none."""
    first = str(history_name(tracked))
    rests = [name.removeprefix(first) for name in (cut.versions if cut else ()) if name.startswith(first)]
    numbers = [int(rest[1:]) for rest in rests if rest[:1] == "_" and rest[1:].isdecimal()]
    return max([*numbers, *(1 for rest in rests if not rest)], default=0)


def _find(lake: Lake, tracked: TableName, number: int, cut: Cut | None) -> Epoch | None:
    name = history_name(tracked, number)
    try:
        opened = layout.open_table(lake, name)
    except (TableLostError, PreconditionError) as error:
        return Epoch(number, name, None, loss_reason(error))
    if opened is None:
        return None
    log, table = opened
    facts = read_facts(log.snapshot)
    if facts is None or (facts.of, facts.epoch) != (tracked, number):
        return Epoch(number, name, None, f"{lake.folder(name)} holds another table, which is not this history")
    why = find_put_back(log, str(name), cut)
    return Epoch(number, name, None if why else OpenEpoch(log, table, facts), why)


def find_put_back(log: DeltaLog, name: str, cut: Cut | None) -> str:
    """Why the epoch is not what the cut names, or a successor of it; empty if it is."""
    version = cut.versions.get(name) if cut else None
    if cut is None or version is None:
        return ""
    # cuts are written after their tables: a higher version in a cut means lost commits
    if log.snapshot.version < version:
        return f"it was put back to version {log.snapshot.version}, and the last cut has version {version}"
    id = cut.commits.get(name)
    if id is not None and (log.commit_id(version) or id) != id:
        return f"its version {version} is another than the last cut has: it was put back to an older state"
    return ""


def is_history_folder(lake: Lake, name: TableName) -> bool:
    """Does a history lie where a table of this name would, even one that cannot be read?"""
    try:
        layout.refuse_history_mark(lake, name)
    except PreconditionError:
        return True
    return False
