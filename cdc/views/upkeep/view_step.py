"""One cut's work on the views."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from cdc.core.table import TableName
from cdc.sinks.lake.apply.tables import LakeTable
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.row_changes import RowChanges


@dataclass(slots=True)
class ViewStep:
    """One cut's work: from `since` (None at first) to `cut`, which has the views that stand at it so far.

    `large`: tables with more changes than are held here. `lost`: tables that are others than before. `failed`: tables
    that cannot be read, with the reason. `replaced`: views that were filled once more. `patience`: for how many
    seconds views that are computed in short are waited for, all together. `repairs`: keys to be computed anew and
    written again, whatever is there, by view; `repaired`: the views with which that is done.
    """

    since: Cut | None
    cut: Cut
    changes: dict[TableName, RowChanges] = field(default_factory=dict)
    large: set[TableName] = field(default_factory=set)
    lost: set[TableName] = field(default_factory=set)
    failed: dict[TableName, str] = field(default_factory=dict)
    done: dict[TableName, LakeTable] = field(default_factory=dict)
    replaced: set[TableName] = field(default_factory=set)
    patience: float = 0.0
    repairs: Mapping[TableName, pa.Table] = field(default_factory=dict)
    repaired: set[TableName] = field(default_factory=set)

    @property
    def moves(self) -> bool:
        """Whether it goes to another cut; else, the newest one is extended."""
        return self.since is None or self.since.position != self.cut.position

    @property
    def changed_bytes(self) -> int:
        """What the changes of all tables take."""
        return sum(changes.nbytes for changes in self.changes.values())

    def changes_of(self, names: Sequence[TableName]) -> dict[TableName, RowChanges]:
        return {name: self.changes[name] for name in names if name in self.changes}
