"""A view's whole computation, from its begin at one cut until it is shown at a later one.

Meanwhile the tables move on with the other views. Their changes are gathered, so that the view reaches the later cut by
its keys, as if it had been there all the time. It does so in one step, since the rows beyond a change are sought among
the present rows and the old ones of all tables: an old row of an earlier step may lead where no present one does.
"""

import math
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field

import pyarrow as pa

from cdc.core.table import TableName
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.pinned_table import PinnedTable
from cdc.sinks.lake.table.row_changes import RowChanges
from cdc.views.compiled import CompiledView
from cdc.views.refresh.write_rows import ViewChanges
from cdc.views.spark.whole import ViewFiles
from cdc.views.upkeep.computing_threads import ComputationOutcome, RunningComputation
from cdc.views.upkeep.view_step import ViewStep


@dataclass(slots=True)
class Computation:
    """A computation of a view, `compiled`, over its `tables` as they are at a cut.

    `present`: the view's own rows that it is compared with; None if it is filled. `changes`: those of its tables since
    the cut; `large`: the tables with more of them than are held. `cancel` ends it.
    """

    compiled: CompiledView
    cut: Cut
    tables: Mapping[TableName, PinnedTable]
    present: PinnedTable | None
    running: RunningComputation[ViewFiles | ViewChanges]
    cancel: Callable[[], None]
    changes: dict[TableName, RowChanges] = field(default_factory=dict)
    large: set[TableName] = field(default_factory=set)

    def is_of(self, compiled: CompiledView, table_id: str | None) -> bool:
        """Whether it is still asked for: of this statement, for the view's table of this id, None if it has none."""
        present = self.present.snapshot.table_id if self.present else None
        return self.compiled is compiled and present == table_id

    def include(self, step: ViewStep, most_bytes: int) -> None:
        """Gather a step's changes of the tables, but for those of a table by which they are more than `most_bytes`.

        They end at the step's cut: the tables must not be others than before.
        """
        self.large |= step.large & self.tables.keys()
        for name, changes in step.changes_of(list(self.tables)).items():
            gathered = self._join(name, changes)
            self.changes.pop(name, None)
            if gathered.nbytes + sum(others.nbytes for others in self.changes.values()) > most_bytes:
                self.large.add(name)
            if name not in self.large:
                self.changes[name] = gathered

    def _join(self, name: TableName, more: RowChanges) -> RowChanges:
        # other views may read other columns by now
        read = {*self.compiled.plan.columns[name], *self.tables[name].table.key}
        columns = [column for column in more.old.column_names if column in read]
        before = self.changes.get(name, RowChanges(more.old.slice(0, 0), more.new.slice(0, 0)))
        return RowChanges(
            pa.concat_tables([before.old.select(columns), more.old.select(columns)]),
            pa.concat_tables([before.new.select(columns), more.new.select(columns)]),
        )

    def since(self, step: ViewStep) -> ViewStep:
        """The step from where it began to another's cut, with all changes in between."""
        return ViewStep(self.cut, step.cut, self.changes, self.large, patience=step.patience)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, within so many seconds from now."""
        return not wait([self.running.future], None if seconds == math.inf else seconds).not_done

    @property
    def has_ended(self) -> bool:
        return self.running.future.done()

    @property
    def outcome(self) -> ComputationOutcome[ViewFiles | ViewChanges]:
        """What it came to; only once it has ended."""
        return self.running.future.result()
