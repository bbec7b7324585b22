"""A lake's tables and views as a refresh reads them: all at one cut, moved on together."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cdc.core.errors import HistoryLostError, TableLostError
from cdc.core.table import Table, TableName
from cdc.sinks.lake import layout
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.bounds import TooManyRowsError
from cdc.sinks.lake.table.lookup import TableLookup
from cdc.sinks.lake.table.row_changes import RowChanges

INDEXES: Final = "by column"
"""The folder of secondary indexes, below that of the key indexes."""


class TablesAtCut:
    """Opens tables at a cut, and moves them on.

    `indexes`: a local folder for secondary indexes. `most_bytes`: of the rows that one look into a table finds.
    """

    def __init__(self, lake: Lake, indexes: Path, most_bytes: int) -> None:
        self._lake = lake
        self._indexes = indexes / INDEXES
        self._most_bytes = most_bytes
        self.lookups: dict[TableName, TableLookup] = {}

    def open(self, cut: Cut, names: Iterable[TableName]) -> set[TableName]:
        """Open those of these tables that the cut has and that are not open yet, at the cut.

        Returns those whose version of the cut is gone.
        """
        lost = set[TableName]()
        for name in names:
            if name not in self.lookups and str(name) in cut.versions:
                try:
                    self.lookups[name] = self._open(name, cut)
                except HistoryLostError:
                    lost.add(name)
        return lost

    def describe(self, names: Iterable[TableName]) -> Mapping[TableName, Table] | None:
        """These tables as they are now; None if one is not open."""
        opened = {name: self.lookups.get(name) for name in names}
        tables = {name: layout.table_of(lookup.snapshot) for name, lookup in opened.items() if lookup}
        whole = {name: table for name, table in tables.items() if table}
        return whole if whole.keys() == opened.keys() else None

    def advance(self, name: TableName, until: Cut, columns: Iterable[str], most_bytes: int) -> RowChanges | None:
        """Move a table on to a later cut; returns the changes of these columns, None without any.

        Raises HistoryLostError when the lake no longer has them, since the table was copied anew, for instance: it is
        closed then. Raises TooManyRowsError when they are more than `most_bytes`.
        """
        lookup, version = self.lookups[name], until.versions.get(str(name))
        if version is None or until.ids.get(str(name)) != lookup.snapshot.table_id:
            del self.lookups[name]
            raise HistoryLostError(f"{name} is another table than before", "its views are computed anew")
        if version <= lookup.snapshot.version:
            return None
        changes = lookup.advance(version, sorted(columns), most_bytes)
        if changes is None:
            raise TooManyRowsError(f"changes of {name} take more than {most_bytes / 2**20:,.0f} MiB")
        return changes if changes.old.num_rows or changes.new.num_rows else None

    def forget_others(self, names: Iterable[TableName]) -> None:
        """Delete the indexes and the copies of rows of all other tables: nobody reads these any more."""
        delete_other_folders(self._indexes, names)

    def save(self) -> None:
        """Save the indexes, so that the next process need not read the files again."""
        for lookup in self.lookups.values():
            lookup.save()

    def _open(self, name: TableName, cut: Cut) -> TableLookup:
        opened = layout.open_table(self._lake, name, cut.versions[str(name)])
        if opened is None:
            raise HistoryLostError(f"{name} is gone from the lake", "run `cdc follow`: it is copied again")
        log, table = opened
        if not cut.has_version(str(name), log.snapshot):
            # changes from here on lead from other rows than those that the views have
            raise TableLostError(name, f"version {log.snapshot.version} of a cut is another one in the lake now")
        folder = self._indexes / layout.folder_name(name)
        return TableLookup(table, self._lake.table_storage(name), log, folder, self._most_bytes)


def delete_other_folders(place: Path, names: Iterable[TableName]) -> None:
    """Delete the folders below a place that are of no table of these names."""
    kept = {layout.folder_name(name) for name in names}
    for folder in place.glob("*/*"):
        if folder.relative_to(place).as_posix() not in kept:
            shutil.rmtree(folder, ignore_errors=True)
