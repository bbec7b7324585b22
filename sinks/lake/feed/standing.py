"""What a table holds at a cut now: the cut's version of it, with what was committed since and moves no position.

That is a repair, a compaction, or the commit of a writer from outside. Readers of Delta see it at once, a cut only once
there is a next one, and on an idle source there is none: who verifies looks here.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from cdc.core.errors import HistoryLostError, PreconditionError, TableLostError
from cdc.core.table import TableName
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.actions import Action, Metadata, Txn
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cut


def find_standing(lake: Lake, name: TableName, cut: Cut) -> Cut:
    """As `stand_at`, by the table's log as it is now; the cut itself where no log can be read: its reader tells why."""
    with suppress(PreconditionError, TableLostError):
        log = layout.open_owned_log(lake, name)
        return cut if log is None else stand_at(lake, log, name, cut)
    return cut


def stand_at(lake: Lake, log: DeltaLog, name: TableName, cut: Cut) -> Cut:
    """The cut with the newest version of this table that is at its position. `log`: the table's, at its newest version.

    The cut itself when another table, or another history of it, has its name since; and for a view that shows an older
    cut: its next versions have rows of later cuts, some of them at this position.
    """
    version, known = cut.versions[str(name)], cut.commits.get(str(name))
    if log.snapshot.table_id != cut.ids[str(name)] or str(name) in cut.as_of:
        return cut
    if known and (log.commit_id(version) or known) != known:
        return cut
    stands = version
    for at in range(version + 1, log.snapshot.version + 1):
        if _moves(lake, _read(log, at), cut):
            break
        stands = at
    if stands == version:
        return cut
    commits = {other: commit for other, commit in cut.commits.items() if other != str(name)}
    return replace(cut, versions={**cut.versions, str(name): stands}, commits=commits)


def _read(log: DeltaLog, version: int) -> list[Action] | None:
    try:
        return log.actions(version)
    except HistoryLostError:
        return None


def _moves(lake: Lake, actions: Iterable[Action] | None, cut: Cut) -> bool:
    """Whether the commit may belong to a later position: a batch behind the cut, a copy, another shape."""
    return actions is None or any(_is_move(lake, action, cut.position.end_offset) for action in actions)


def _is_move(lake: Lake, action: Action, end_offset: int) -> bool:
    if isinstance(action, Metadata):
        return True
    if not isinstance(action, Txn):
        return False
    # a repair sets the position that the table has already
    is_behind = action.app_id == lake.app_id and action.version > end_offset
    return is_behind or action.app_id.startswith(f"{lake.app_id}/")
