"""A view as its keeper has it: its definition, and what is remembered of it from cut to cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cdc.core.table import Table, TableName
from cdc.core.waiting import Deadline
from cdc.sinks.lake.apply.tables import LakeTable
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.row_changes import RowChanges
from cdc.views.compiled import CompiledView, PresentRows
from cdc.views.definition import ViewDefinition
from cdc.views.statement.final_windows import list_read_tables

RETRY_SECONDS: Final = 30.0
"""Least pause before a stopped view is filled again: somebody may have repaired the cause."""
BACKOFF_FACTOR: Final = 10
"""The pause is this many times the duration of the try."""


@dataclass(slots=True)
class KeptView:
    """A view, and what its keeper remembers of it.

    `tables`: those that it reads. `whole_seconds`: the least pause between two computations of the whole view.
    `as_of`: the END offset of the older cut that it shows, while changes that touch every row are not in it yet.
    `whole_reason`: why it is computed as a whole at present, where its statement does not ask for that. `tried`: its
    tables at the last try, as they were.
    """

    definition: ViewDefinition
    tables: Sequence[TableName]
    whole_seconds: float
    compiled: CompiledView | None = None
    described: Mapping[TableName, Table] = field(default_factory=dict)
    present: PresentRows | None = None
    retry_at: Deadline = field(default_factory=lambda: Deadline(0))
    whole_at: Deadline = field(default_factory=lambda: Deadline(0))
    as_of: int | None = None
    whole_reason: str = ""
    problem: str = ""
    tried: Mapping[TableName, Table] | None = None

    @property
    def name(self) -> TableName:
        return self.definition.name

    def redefine(self, definition: ViewDefinition) -> None:
        """Go on with another definition of the same name; nothing is known of its rows."""
        self.definition, self.tables = definition, list_read_tables(definition)
        self.compiled, self.described, self.present, self.as_of, self.tried = None, {}, None, None, None
        self.retry_at, self.whole_reason = Deadline(0), ""

    def put_off(self, seconds: float) -> None:
        """Let some time pass before the next try to fill it; `seconds`: how long the last one took."""
        self.retry_at = Deadline(max(RETRY_SECONDS, BACKOFF_FACTOR * seconds))

    def was_computed(self) -> None:
        """It was computed as a whole a moment ago."""
        self.whole_at, self.as_of = Deadline(self.whole_seconds), None

    def find_absent(self, cut: Cut) -> TableName | None:
        """A table or view that it reads and a cut lacks."""
        return next((name for name in self.tables if str(name) not in cut.versions), None)


@dataclass(slots=True)
class ViewStep:
    """One cut's work: from `since` (None at first) to `cut`, which has the views that stand at it so far.

    `large`: tables with more changes than are held here. `lost`: tables that are others than before. `failed`: tables
    that cannot be read, with the reason.
    """

    since: Cut | None
    cut: Cut
    changes: dict[TableName, RowChanges] = field(default_factory=dict)
    large: set[TableName] = field(default_factory=set)
    lost: set[TableName] = field(default_factory=set)
    failed: dict[TableName, str] = field(default_factory=dict)
    done: dict[TableName, LakeTable] = field(default_factory=dict)

    def changes_of(self, names: Sequence[TableName]) -> dict[TableName, RowChanges]:
        return {name: self.changes[name] for name in names if name in self.changes}
