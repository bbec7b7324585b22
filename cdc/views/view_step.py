"""One cut's work on the views."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cdc.core.table import TableName
from cdc.sinks.lake.apply.tables import LakeTable
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.row_changes import RowChanges


@dataclass(slots=True)
class ViewStep:
    """One cut's work: from `since` (None at first) to `cut`, which has the views that stand at it so far.

    `large`: tables with more changes than are held here. `lost`: tables that are others than before. `failed`: tables
    that cannot be read, with the reason. `replaced`: views that were filled once more. `waits`: whether a view that is
    computed in short is waited for.
    """

    since: Cut | None
    cut: Cut
    changes: dict[TableName, RowChanges] = field(default_factory=dict)
    large: set[TableName] = field(default_factory=set)
    lost: set[TableName] = field(default_factory=set)
    failed: dict[TableName, str] = field(default_factory=dict)
    done: dict[TableName, LakeTable] = field(default_factory=dict)
    replaced: set[TableName] = field(default_factory=set)
    waits: bool = True

    def changes_of(self, names: Sequence[TableName]) -> dict[TableName, RowChanges]:
        return {name: self.changes[name] for name in names if name in self.changes}
