"""The tables that views read, moved on with them: how far at once, and what changed."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from cdc.core.containment import SHARED, contain_errors
from cdc.core.errors import HistoryLostError
from cdc.core.table import Table, TableName
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.bounds import TooManyRowsError
from cdc.sinks.lake.table.lookup import TableLookup
from cdc.views.refresh.lake_tables import TablesAtCut
from cdc.views.store import ViewStore
from cdc.views.upkeep.view_step import ViewStep

CUTS_AT_ONCE: Final = 100
"""Cuts of the tables that are looked at for the end of a slice."""
VERSIONS_AT_ONCE: Final = 1_000
"""Commits of a table that are read for one step."""
CheckShared = Callable[[], Exception | None]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one step takes at once, in bytes of rows as their files have them, of all tables together.

    `slice_bytes`: changes of a step that passes over several cuts. `changed_bytes`: changes of a step that is one cut;
    of the tables with the most, for more, views are computed as a whole. `found_bytes`: rows that one look into a table
    finds; for more, the same.
    `keys`: keys of a view that are computed at once; for more of them than `share` of its rows, all are, by Spark.
    `small_rows`: of a view's tables, if Spark does not read them. `wait_seconds`: that a step waits for views which are
    computed as a whole, all together: for those of which the last time did not take longer.
    """

    slice_bytes: int = 64 * 2**20
    changed_bytes: int = 256 * 2**20
    found_bytes: int = 256 * 2**20
    keys: int = 100_000
    share: float = 0.2
    small_rows: int = 20_000
    wait_seconds: float = 2.0


class TableSteps:
    """Moves the tables of views, of these `names`, from cut to cut; each table's trouble is its own."""

    def __init__(
        self, store: ViewStore, names: Collection[TableName], bounds: Bounds, check_shared: CheckShared
    ) -> None:
        self._store = store
        self._bounds = bounds
        self._check_shared = check_shared
        self._tables = TablesAtCut(store.lake, store.indexes, bounds.found_bytes)
        self._tables.forget_others(names)

    @property
    def lookups(self) -> Mapping[TableName, TableLookup]:
        return self._tables.lookups

    def describe(self, names: Iterable[TableName]) -> Mapping[TableName, Table] | None:
        """These tables as they are now; None if one is not open."""
        return self._tables.describe(names)

    def open(self, step: ViewStep, cut: Cut, names: Iterable[TableName]) -> None:
        """Open those of these tables that are not open yet, at a cut; notes those that cannot be."""
        for name in names:
            with self._contain(name, step):
                step.lost |= self._tables.open(cut, [name])

    def choose_cut(self, since: Cut, newest: Cut, views: Collection[TableName]) -> Cut:
        """The furthest cut of the tables up to which the changes are few; the next one if none is.

        It is no nearer one than that of which views have rows already: they would be in a cut before their own.
        """
        if self._is_near(newest, views):
            return newest
        between = [
            cut
            for cut in self._store.table_cuts.list_after(since, CUTS_AT_ONCE)
            if newest.position.covers(cut.position)
        ]
        if not between or not between[0].is_next_to(since):
            return newest
        begun = self._store.find_begun(since, views)
        chosen = begun if begun and newest.position.covers(begun.position) else between[0]
        for cut in between:
            if not chosen.position.covers(cut.position):
                if not self._is_near(cut, views):
                    break
                chosen = cut
        return chosen

    def _is_near(self, cut: Cut, views: Collection[TableName]) -> bool:
        tables = [name for name in self.lookups if name not in views]
        return sum(self._measure(name, cut) for name in tables) <= self._bounds.slice_bytes

    def _measure(self, name: TableName, cut: Cut) -> int:
        """The bytes of a table's changes up to a cut; 0 where they cannot be read, which is met again."""
        lookup, version = self.lookups[name], cut.versions.get(str(name))
        if version is None or cut.ids.get(str(name)) != lookup.snapshot.table_id:
            return 0
        if version - lookup.snapshot.version > VERSIONS_AT_ONCE:
            return self._bounds.slice_bytes + 1
        try:
            return lookup.measure_changes(version)
        except SHARED:
            raise
        except Exception:  # noqa: BLE001 - `take` meets it again, for the views of this table alone
            return 0

    def take_all(
        self, step: ViewStep, views: Collection[TableName], columns_of: Callable[[TableName], set[str]]
    ) -> None:
        """Move all tables but views on to the step's cut: those with few changes first, for which there is room."""
        tables = [name for name in self.lookups if name not in views]
        for name in sorted(tables, key=lambda name: (self._measure(name, step.cut), name)):
            self.take(name, step, columns_of(name))

    def take(self, name: TableName, step: ViewStep, columns: Collection[str]) -> None:
        """Move a table on to the step's cut, and note its changes, unless there is no room for them."""
        room = max(self._bounds.changed_bytes - step.changed_bytes, 0)
        with self._contain(name, step):
            self._tables.lookups[name].copy_rows(sorted(columns))
            try:
                changes = self._tables.advance(name, step.cut, columns, room)
            except HistoryLostError:
                step.lost.add(name)
                self._tables.lookups.pop(name, None)
                return
            except TooManyRowsError:
                step.large.add(name)
                return
            if changes is not None:
                step.changes[name] = changes

    def _contain(self, name: TableName, step: ViewStep) -> AbstractContextManager[None]:
        def fail(reason: str) -> None:
            step.failed[name] = reason
            # at another cut than the others, perhaps
            self._tables.lookups.pop(name, None)

        return contain_errors(f"{name}, which views read", fail, self._check_shared)

    def save(self) -> None:
        self._tables.save()
