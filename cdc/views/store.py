"""The views' tables in the lake, and their cuts: each names the versions of all tables and views at one position."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.core.position import BEFORE_LOG, Bookmark, Lsn, Position
from cdc.core.table import TableName
from cdc.sinks.lake.apply.tables import LakeTable, LakeTables
from cdc.sinks.lake.layout import SOURCE_PROPERTY, Lake
from cdc.sinks.lake.metadata.cuts import Cut, Cuts
from cdc.sinks.lake.metadata.stopped_tables import StoppedTable, StoppedTables
from cdc.views.definition import ViewDefinition

INDEXES: Final = "views"
"""The folder, below that of the tables' indexes, of the views' own."""
REBUILT: Final = "rebuilt"
"""The same of views that are built beside."""


class ViewStore:
    """The views of one lake as they are, whoever writes them.

    `indexes`: a local folder for the key indexes. `beside`: those that nobody reads, over the tables and all views.
    """

    def __init__(self, lake: Lake, indexes: Path, *, beside: bool = False) -> None:
        self.lake = lake.of_rebuilt_views if beside else lake.of_views
        self.table_cuts = Cuts(lake.of_views if beside else lake)
        self.indexes = indexes / (REBUILT if beside else INDEXES)
        self.cuts = Cuts(self.lake)
        self.tables = LakeTables(self.lake, self.indexes, self.cuts)
        self._stopped = StoppedTables(self.lake)

    def prepare(self, views: Iterable[ViewDefinition]) -> None:
        """List the views, and those that are no longer defined no more; their rows stay in the lake."""
        names = [view.name for view in views]
        self.cuts.prepare()
        self.tables.add(names)
        if gone := [name for name in self.tables.list_names() if name not in names]:
            self.tables.remove(gone)

    def find(self, view: ViewDefinition) -> LakeTable | None:
        """The view's table, if it was filled by this definition and is not stopped."""
        table = self._find_table(view.name)
        if table is None or not view.is_noted_in(table.writer.snapshot.configuration):
            return None
        return None if table.id in self._stopped.by_id() else table

    def _find_table(self, name: TableName) -> LakeTable | None:
        # what lies in its place and cannot be opened is no table of it: to fill it says why
        with suppress(PreconditionError, HistoryLostError):
            return self.tables.find(name)
        return None

    def find_stop(self, view: ViewDefinition) -> StoppedTable | None:
        """Why the view is not kept up; None if it is, or was not filled yet."""
        table, stops = self._find_table(view.name), self._stopped.by_id()
        if table is not None and view.is_noted_in(table.writer.snapshot.configuration):
            return stops.get(table.id)
        return stops.get(view.id)

    def stop(self, view: ViewDefinition, lsn: Lsn, reason: str) -> None:
        """Stop a view durably behind this LSN: it leaves the cuts until it is filled again."""
        table = self.find(view)
        id, name = table.id if table else view.id, view.name
        self._stopped.add([StoppedTable(id, name.schema, name.table, lsn, reason, True)])

    def find_in(self, cut: Cut | None, view: ViewDefinition) -> LakeTable | None:
        """The view's table, if the cut has it and it was not put back since."""
        table = self.find(view)
        if cut is None or table is None or not table.is_in(cut) or table.describe_divergence(cut):
            return None
        return table

    def include(self, cut: Cut, view: LakeTable, version: int | None) -> Cut:
        """A cut with a view at this version, or as it is now."""
        snapshot, name = view.writer.snapshot, str(view.table.name)
        version = snapshot.version if version is None else version
        commit = snapshot.commit_id if version == snapshot.version else view.writer.log.commit_id(version)
        return replace(
            cut,
            versions={**cut.versions, name: version},
            ids={**cut.ids, name: snapshot.table_id},
            commits={**cut.commits, **({name: commit} if commit else {})},
        )

    def find_begun(self, since: Cut, views: Iterable[TableName]) -> Cut | None:
        """The furthest cut of the tables of which views have rows, though their own last cut is `since`.

        A process ended before it added that cut. None if there is no such cut, or it is gone.
        """
        tables = [table for name in views if (table := self._find_table(name)) and table.is_in(since)]
        offset = max((table.offset for table in tables), default=BEFORE_LOG)
        # a view that was computed as a whole has the cut of that in its bookmark
        lsn = max((table.bookmark.lsn for table in tables), default=Lsn(0))
        found = [
            self.table_cuts.find(offset) if offset > since.position.end_offset else None,
            self.table_cuts.find_newest(lsn=lsn) if lsn > since.position.lsn else None,
        ]
        return max((cut for cut in found if cut), key=lambda cut: cut.position.end_offset, default=None)

    def add_cut(self, cut: Cut) -> Cut:
        """Add a tables' cut with the views that stand at it, or at the older cuts that it names for them."""
        self.cuts.add(cut, self.cuts.last())
        return cut

    def extend_cut(self, cut: Cut, replaced: Iterable[TableName]) -> Cut:
        """Put this cut in the place of the newest one, which is at the same position and has fewer views.

        `replaced`: those of the others of which followers may have older rows.
        """
        self.cuts.extend(cut, map(str, replaced))
        return cut

    def was_shown(self, view: ViewDefinition) -> bool:
        """Whether a view of this name has been in a cut before, whatever its rows were."""
        return self._find_table(view.name) is not None or self.cuts.find_last_with(str(view.name)) is not None

    def shown_cut(self, cut: Cut, name: TableName) -> Cut:
        """The cut that a view shows at `cut`: that one, or an older one."""
        older = cut.as_of.get(str(name))
        return cut if older is None else self.cuts.find(older) or cut

    def position(self) -> Position | None:
        """The position of the last cut; None before the first."""
        self.cuts.invalidate()
        cut = self.cuts.last()
        return cut.position if cut else None


def bookmark_at(cut: Cut, source: Mapping[str, str]) -> Bookmark:
    """The bookmark of a view that was computed at a cut. `source`: the properties of a table that it reads."""
    return Bookmark.from_json({**json.loads(source[SOURCE_PROPERTY]), "lsn": cut.position.lsn})
