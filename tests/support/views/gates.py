"""Computations of views that take as long as a test wants them to."""

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pytest

from cdc.core.table import TableName
from cdc.sinks.lake.table.pinned_table import PinnedTable
from cdc.views.compiled import CompiledView
from cdc.views.refresh.write_rows import ViewChanges
from cdc.views.spark.whole import ViewFiles, WholeComputation
from tests.support.waiting import LIMIT_SECONDS


def _open_gate() -> threading.Event:
    gate = threading.Event()
    gate.set()
    return gate


@dataclass
class Gates:
    """A gate for each view, open at first: whole computations of a view end only while its gate is open.

    `begun`: how many of each view.
    """

    begun: Counter[TableName] = field(default_factory=Counter)
    _gates: defaultdict[TableName, threading.Event] = field(default_factory=lambda: defaultdict(_open_gate))

    @classmethod
    def put_before(cls, patched: pytest.MonkeyPatch) -> "Gates":
        """Gates before all computations in this process."""
        gates, compute = cls(), WholeComputation.compute

        def compute_later(
            self: WholeComputation, view: CompiledView, present: PinnedTable | None
        ) -> ViewFiles | ViewChanges:
            gates.begun[view.definition.name] += 1
            found = compute(self, view, present)
            assert gates._gates[view.definition.name].wait(LIMIT_SECONDS)
            return found

        patched.setattr(WholeComputation, "compute", compute_later)
        return gates

    def close(self, view: TableName) -> None:
        self._gates[view].clear()

    def open(self, *views: TableName) -> None:
        for view in views:
            self._gates[view].set()

    def is_open(self, view: TableName) -> bool:
        return self._gates[view].is_set()
