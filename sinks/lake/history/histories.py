"""The histories of a lake: kept beside their tables, one batch after the other."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.netting.batch import TableChanges
from cdc.columns.netting.transactions import Ends
from cdc.columns.values.arrow_types import arrow_schema
from cdc.core.errors import DivergenceError, TableLostError
from cdc.core.position import BEFORE_LOG, Bookmark
from cdc.core.table import Table, TableName
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.delta.snapshot import Snapshot, TxnUpdate, now_ms
from cdc.sinks.lake.history.kept import KeptHistory, find_end
from cdc.sinks.lake.history.rows import TableVersions, UnsentVersionError, make_rows, with_further
from cdc.sinks.lake.history.shape import CHANGE, COPY, ENDS, SEQUENCE, history_name, history_table
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cuts
from cdc.sinks.lake.table.load import load_copy, prepare_folder
from cdc.sinks.lake.table.writer import TableWriter

PART_ROWS: Final = 200_000
"""Rows of a copy that are written to the history at a time."""


class CopiedTable(Protocol):
    """A table of the lake: its copy's bookmark, and the offset of the last END that was applied to it."""

    @property
    def writer(self) -> TableWriter: ...
    @property
    def bookmark(self) -> Bookmark: ...
    @property
    def offset(self) -> int: ...
    @property
    def table(self) -> Table: ...


class Histories:
    """Keeps the histories of some tables.

    A batch's versions are committed before the table's own rows: unsent values are taken from the rows before the
    batch. The history's own position says what it has, so that a batch that is repeated adds nothing twice.
    """

    def __init__(self, lake: Lake, names: Collection[TableName], indexes: Path, cuts: Cuts) -> None:
        self._lake = lake
        self._names = frozenset(names)
        self._indexes = indexes
        self._cuts = cuts
        self._kept: dict[TableName, KeptHistory] = {}

    def has(self, name: TableName) -> bool:
        """Is a history of this table kept?"""
        return name in self._names

    def add(self, table: CopiedTable, changes: TableChanges | None, ends: Ends, version: int) -> None:
        """Add the versions of a batch, if a history of the table is kept; `version`: the offset of its last END.

        Call it before the table's own commit. Raises DivergenceError when an update left values out and the table has
        no row to take them from, or the history is damaged; RefusedError as `commit` does.
        """
        if not self.has(table.table.name):
            return
        # tables with a history are read by the driver
        assert changes is not None
        with table.writer.lock, _blaming(table.table.name):
            self._add(table, TableVersions(changes.changes, changes.ranks, ends), version)

    def _add(self, table: CopiedTable, versions: TableVersions, version: int) -> None:
        history = self._open(table)
        after = self._offset_of(history)
        if version <= after:
            return
        source = table.writer
        # only indexed files yield old rows
        source.rows.index_new_files()
        try:
            rows = make_rows(versions, source.table, after, source.read_rows, lambda: _live_keys(source))
        except UnsentVersionError:
            raise DivergenceError(
                f"{source.table.name}: an update left out values, and the lake has no previous row to take them from",
                "something else has written to the lake: see `cdc verify`, then bootstrap the table again",
            ) from None
        history.append([rows], self._move_to(history, version))

    def begin(self, tables: Mapping[TableName, CopiedTable]) -> None:
        """Begin the histories of tables that have none of their present copy."""
        for name, table in tables.items():
            if self.has(name):
                with _blaming(name):
                    self._open(table)

    def copy_again(self, table: CopiedTable) -> None:
        """Begin a copy of the table's present rows, if a history of it is kept: nobody knows what came in between."""
        if self.has(table.table.name):
            with table.writer.lock, _blaming(table.table.name):
                self._open(table, copy_again=True)

    def snapshots(self, names: Collection[TableName]) -> dict[TableName, Snapshot]:
        """The histories of these tables as they are, by their own names; those that have begun."""
        return {history_name(n): self._kept[n].writer.snapshot for n in sorted(names) if n in self._kept}

    def highest_offset(self) -> int:
        """The highest END offset of any history; after a crash, beyond its table's."""
        return max(map(self._offset_of, self._kept.values()), default=BEFORE_LOG)

    def list_open(self) -> list[tuple[TableName, TableWriter]]:
        """The histories opened so far; safe beside the thread that opens them."""
        return [(kept.writer.table.name, kept.writer) for kept in list(self._kept.values())]

    def _open(self, table: CopiedTable, *, copy_again: bool = False) -> KeptHistory:
        """The history of the table's present copy, with its columns."""
        name = table.table.name
        history = self._kept.get(name) or self._find(name) or self._create(table)
        self._kept[name] = history
        writer, wanted = history.writer, history_table(table.table)
        if writer.table.column_names != wanted.column_names:
            writer.add_columns(wanted, layout.schema_lsn(table.writer.snapshot))
        is_of_copy = self._copied_lsn(writer.snapshot) == table.bookmark.lsn
        # it is ahead of its table after a kill, never behind, unless it was not kept for a while
        if copy_again or not is_of_copy or self._offset_of(history) < table.offset:
            self._begin_copy(history, table)
        return history

    def _find(self, name: TableName) -> KeptHistory | None:
        log = layout.open_owned_log(self._lake, history_name(name))
        table = layout.table_of(log.snapshot) if log else None
        if log is None or table is None:
            return None
        storage = self._lake.table_storage(table.name)
        writer = TableWriter(table, storage, log, self._indexes / layout.folder_name(table.name))
        return KeptHistory(writer, find_end(writer))

    def _create(self, table: CopiedTable) -> KeptHistory:
        own = history_table(table.table)
        prepare_folder(self._lake, own.name)
        load_copy(self._lake, own, [], table.bookmark)
        history = self._find(table.table.name)
        assert history is not None
        return history

    def _begin_copy(self, history: KeptHistory, table: CopiedTable) -> None:
        """Add the rows of a new copy, and end the versions of keys that it does not have."""
        at = self._lsn_of(table)
        ended = _ended_keys(history.writer, table, at)
        parts = chain((part for part in _copied_rows(table, at) if len(part)), [ended] if len(ended) else [])
        mark = self._copy_mark(history.writer, table.bookmark)
        history.append(parts, self._move_to(history, table.offset), [mark])

    def _lsn_of(self, table: CopiedTable) -> int:
        """The LSN at which the table stands: its copy's, or the last cut's if changes were applied since."""
        cut = self._cuts.last()
        return (
            table.bookmark.lsn
            if table.offset == BEFORE_LOG or cut is None
            else max(cut.position.lsn, table.bookmark.lsn)
        )

    def _copy_mark(self, writer: TableWriter, bookmark: Bookmark) -> TxnUpdate:
        id = f"{self._lake.app_id}/copy"
        return TxnUpdate(id, writer.snapshot.transactions.get(id), bookmark.lsn)

    def _offset_of(self, history: KeptHistory) -> int:
        offset = history.writer.snapshot.transactions.get(self._lake.app_id)
        return BEFORE_LOG if offset is None else offset

    def _move_to(self, history: KeptHistory, offset: int) -> TxnUpdate:
        return TxnUpdate(self._lake.app_id, history.writer.snapshot.transactions.get(self._lake.app_id), offset)

    def _copied_lsn(self, snapshot: Snapshot) -> int | None:
        return snapshot.transactions.get(f"{self._lake.app_id}/copy")


@contextmanager
def _blaming(name: TableName) -> Iterator[None]:
    """A damaged history stops its table: what nobody can add to it would be missing there for ever."""
    try:
        yield
    except TableLostError as lost:
        history = history_name(name)
        raise DivergenceError(
            f"{name}: its history {history} is lost: {lost.why}",
            f"put it back as it was, or remove its folder; then `cdc bootstrap --again {name}`",
        ) from lost


def _copied_rows(table: CopiedTable, at: int) -> Iterator[pa.Table]:
    """The table's rows, which are those of this LSN, as rows of its history."""
    writer = table.writer
    for file in writer.snapshot.files.values():
        for part in live_rows(writer.storage, Share(file), writer.table):
            yield _with_copy(part, COPY, at, writer.table)


def _with_copy(rows: pa.Table, kind: str, lsn: int, table: Table) -> pa.Table:
    count = len(rows)
    moment = pa.array(np.repeat(now_ms() * 1000, count), pa.int64())
    return with_further(rows, [[kind] * count, moment, np.repeat(lsn, count), pa.nulls(count)], table)


def _live_keys(writer: TableWriter) -> pa.Table:
    names = [name for name in writer.table.column_names if name in writer.table.key]
    schema = pa.schema([field for field in arrow_schema(writer.table) if field.name in names])
    parts = [
        part
        for file in writer.snapshot.files.values()
        for part in live_rows(writer.storage, Share(file), writer.table, names)
    ]
    return pa.concat_tables([schema.empty_table(), *parts])


def _ended_keys(writer: TableWriter, table: CopiedTable, at: int) -> pa.Table:
    """A `delete` for each key whose last version goes on in the history, and that the new copy does not have."""
    key = list(table.table.key)
    names = [*key, CHANGE, SEQUENCE]
    schema = pa.schema([field for field in arrow_schema(writer.table) if field.name in names])
    parts = [
        part
        for file in writer.snapshot.files.values()
        for part in live_rows(writer.storage, Share(file), writer.table, schema.names)
    ]
    rows = pa.concat_tables([schema.empty_table(), *parts])
    if not rows.num_rows:
        return _with_copy(_only_keys(rows.select(key), table.table), "delete", at, table.table)
    last = rows.sort_by(SEQUENCE).group_by(key, use_threads=False).aggregate([(CHANGE, "last")])
    going = last.filter(pc.invert(pc.is_in(last[f"{CHANGE}_last"], pa.array(ENDS)))).select(key)
    gone = going.join(_live_keys(table.writer).select(key), key, join_type="left anti")
    return _with_copy(_only_keys(gone, table.table), "delete", at, table.table)


def _only_keys(keys: pa.Table, table: Table) -> pa.Table:
    schema = arrow_schema(table)
    columns = [
        keys[field.name].cast(field.type) if field.name in keys.column_names else pa.nulls(len(keys), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
