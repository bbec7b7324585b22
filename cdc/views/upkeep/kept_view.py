"""A view as its keeper has it: its definition, and what is remembered of it from cut to cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cdc.core.table import Table, TableName
from cdc.core.waiting import Deadline
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.compiled import CompiledView, PresentRows
from cdc.views.definition import ViewDefinition
from cdc.views.statement.final_windows import list_read_tables
from cdc.views.upkeep.computation import Computation

RETRY_SECONDS: Final = 30.0
"""Least pause before a stopped view is filled again: somebody may have repaired the cause."""
BACKOFF_FACTOR: Final = 10
"""The pause is this many times the duration of the try, or of the last computation of the whole view."""
LEAST_WHOLE_SECONDS: Final = 1.0
MOST_WHOLE_SECONDS: Final = 30.0
"""The pause between two computations of the whole view, where nobody has set it."""


@dataclass(slots=True)
class KeptView:
    """A view, and what its keeper remembers of it.

    `tables`: those that it reads. `whole_seconds`: the least pause between two computations of the whole view; 0 where
    it may show no older cut, None where the pause follows from how long the last one took.
    `as_of`: the END offset of the older cut that it shows, while changes that touch every row are not in it yet, and
    `shown_version`: its version then, since newer ones may have some rows of a later cut.
    `whole_reason`: why it is computed as a whole at present, where its statement does not ask for that. `tried`: its
    tables at the last try, as they were. `computation`: the one that goes on beside the stream. `seconds`: how long the
    last one took.
    """

    definition: ViewDefinition
    tables: Sequence[TableName]
    whole_seconds: float | None
    compiled: CompiledView | None = None
    described: Mapping[TableName, Table] = field(default_factory=dict)
    present: PresentRows | None = None
    retry_at: Deadline = field(default_factory=lambda: Deadline(0))
    whole_at: Deadline = field(default_factory=lambda: Deadline(0))
    as_of: int | None = None
    shown_version: int | None = None
    whole_reason: str = ""
    problem: str = ""
    tried: Mapping[TableName, Table] | None = None
    computation: Computation | None = None
    seconds: float = 0.0

    @property
    def name(self) -> TableName:
        return self.definition.name

    def redefine(self, definition: ViewDefinition) -> None:
        """Go on with another definition of the same name; nothing is known of its rows."""
        self.definition, self.tables = definition, list_read_tables(definition)
        self.drop_computation()
        self.compiled, self.described, self.present, self.tried = None, {}, None, None
        self.as_of, self.shown_version = None, None
        self.retry_at, self.whole_reason = Deadline(0), ""

    def drop_computation(self) -> None:
        """End the computation that goes on, if one does: nobody asks for its result any more."""
        if self.computation is not None:
            self.computation.cancel()
        self.computation = None

    def put_off(self, seconds: float) -> None:
        """Let some time pass before the next try to fill it; `seconds`: how long the last one took."""
        self.retry_at = Deadline(max(RETRY_SECONDS, BACKOFF_FACTOR * seconds))

    def show(self, cut: Cut, version: int) -> None:
        """Stay at a cut, which has this version, until it is computed as a whole."""
        self.as_of, self.shown_version = cut.position.end_offset, version

    def was_computed(self) -> None:
        """It was computed as a whole a moment ago."""
        self.whole_at, self.as_of, self.shown_version = Deadline(self._choose_pause()), None, None

    def _choose_pause(self) -> float:
        if self.whole_seconds is not None:
            return self.whole_seconds
        return min(max(BACKOFF_FACTOR * self.seconds, LEAST_WHOLE_SECONDS), MOST_WHOLE_SECONDS)

    def find_absent(self, cut: Cut) -> TableName | None:
        """A table or view that it reads and a cut lacks."""
        return next((name for name in self.tables if str(name) not in cut.versions), None)
