"""The histories of a lake: kept beside their tables, one batch after the other."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.netting.batch import TableChanges, WrittenRows
from cdc.columns.netting.transactions import Ends
from cdc.columns.rows.key_fingerprints import KeyBits, empty_keys
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.columns.values.arrow_types import arrow_schema
from cdc.core.errors import DivergenceError, TableLostError
from cdc.core.position import BEFORE_LOG, Bookmark
from cdc.core.table import Table, TableName
from sinks.lake import layout
from sinks.lake.delta import data_files
from sinks.lake.delta.scan import Share, live_rows
from sinks.lake.delta.snapshot import Snapshot, TxnUpdate, now_ms
from sinks.lake.history.chain import BEGINNING, digest_batch, extend, hash_rows
from sinks.lake.history.rows import TableVersions, UnsentVersionError, make_rows, with_further
from sinks.lake.history.shape import BATCH, CHAIN, CHANGE, ENDS, LSN, NUMBER, history_name, history_table
from sinks.lake.layout import Lake
from sinks.lake.metadata.cuts import Cuts
from sinks.lake.table.commit import CommitPlan, commit
from sinks.lake.table.load import load_copy, prepare_folder
from sinks.lake.table.writer import TableWriter

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


@dataclass(slots=True)
class _Kept:
    """A history that is kept: the number of its last batch, and the chain up to it."""

    writer: TableWriter
    batch: int = 0
    chain: str = BEGINNING


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
        self._kept: dict[TableName, _Kept] = {}

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
        writer = history.writer
        offset = writer.snapshot.transactions.get(self._lake.app_id)
        after = BEFORE_LOG if offset is None else offset
        if not (versions.ranks > after).any():
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
        _append(history, [rows], TxnUpdate(self._lake.app_id, offset, version))

    def begin(self, tables: Mapping[TableName, CopiedTable]) -> None:
        """Begin the histories of tables that have none of their present copy."""
        for name, table in tables.items():
            if self.has(name):
                with _blaming(name):
                    self._open(table)

    def snapshots(self, names: Collection[TableName]) -> dict[TableName, Snapshot]:
        """The histories of these tables as they are, by their own names; those that have begun."""
        return {history_name(n): self._kept[n].writer.snapshot for n in sorted(names) if n in self._kept}

    def highest_offset(self) -> int:
        """The highest END offset of any history; after a crash, beyond its table's."""
        offsets = [kept.writer.snapshot.transactions.get(self._lake.app_id) for kept in self._kept.values()]
        return max((offset for offset in offsets if offset is not None), default=BEFORE_LOG)

    def list_open(self) -> list[tuple[TableName, TableWriter]]:
        """The histories opened so far; safe beside the thread that opens them."""
        return [(kept.writer.table.name, kept.writer) for kept in list(self._kept.values())]

    def _open(self, table: CopiedTable) -> _Kept:
        """The history of the table's present copy, with its columns."""
        name = table.table.name
        history = self._kept.get(name) or self._find(name) or self._create(table)
        self._kept[name] = history
        writer, wanted = history.writer, history_table(table.table)
        if writer.table.column_names != wanted.column_names:
            writer.add_columns(wanted, layout.schema_lsn(table.writer.snapshot))
        if self._copied_lsn(writer.snapshot) != table.bookmark.lsn:
            self._begin_copy(history, table)
        return history

    def _find(self, name: TableName) -> _Kept | None:
        log = layout.open_owned_log(self._lake, history_name(name))
        table = layout.table_of(log.snapshot) if log else None
        if log is None or table is None:
            return None
        storage = self._lake.table_storage(table.name)
        writer = TableWriter(table, storage, log, self._indexes / layout.folder_name(table.name))
        return _Kept(writer, *_read_chain(writer))

    def _create(self, table: CopiedTable) -> _Kept:
        own = history_table(table.table)
        prepare_folder(self._lake, own.name)
        load_copy(self._lake, own, [], table.bookmark)
        history = self._find(table.table.name)
        assert history is not None
        return history

    def _begin_copy(self, history: _Kept, table: CopiedTable) -> None:
        """Add the rows of a new copy, and end the versions of keys that it does not have."""
        at = self._lsn_of(table)
        ended = _ended_keys(history.writer, table, at)
        parts = chain((part for part in _copied_rows(table, at) if len(part)), [ended] if len(ended) else [])
        _append(history, parts, self._copy_mark(history.writer, table.bookmark))

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


def _append(history: _Kept, parts: Iterable[pa.Table], move: TxnUpdate) -> None:
    """Add rows, each part as a batch of the chain, all in one commit."""
    writer, number, so_far, files = history.writer, history.batch, history.chain, list[WrittenRows]()
    with writer.lock:
        for rows in parts:
            number, so_far = number + 1, extend(so_far, digest_batch(hash_rows(rows, writer.table)))
            files.append(_write(writer, _with_chain(rows, number, so_far, writer.table)))
        commit(writer, CommitPlan(False, files, empty_keys(), []), move)
    history.batch, history.chain = number, so_far


def _with_chain(rows: pa.Table, number: int, so_far: str, table: Table) -> pa.Table:
    added = {BATCH: pa.array(np.repeat(number, len(rows))), CHAIN: pa.array([so_far] * len(rows), pa.string())}
    schema = arrow_schema(table)
    columns = [added[field.name] if field.name in added else rows[field.name] for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _write(writer: TableWriter, rows: pa.Table) -> WrittenRows:
    keys: KeyBits = row_bits(rows, writer.table)
    new = np.zeros(len(keys), np.bool_)
    file = data_files.write(writer.storage, rows, writer.statistics_columns, data_files.change_types(new))
    return WrittenRows(file.path, file.size, file.rows, file.stats, keys, new)


def _copied_rows(table: CopiedTable, at: int) -> Iterator[pa.Table]:
    """The table's rows, which are those of this LSN, as rows of its history."""
    writer = table.writer
    for file in writer.snapshot.files.values():
        for part in live_rows(writer.storage, Share(file), writer.table):
            yield _with_copy(part, "copy", at, writer.table)


def _read_chain(writer: TableWriter) -> tuple[int, str]:
    """The number of the last batch, and the chain up to it."""
    last, found = 0, BEGINNING
    for file in writer.snapshot.files.values():
        for part in live_rows(writer.storage, Share(file), writer.table, [BATCH, CHAIN]):
            at = int(pc.index(part[BATCH], pc.max(part[BATCH])).as_py()) if len(part) else -1
            if at >= 0 and part[BATCH][at].as_py() > last:
                last, found = part[BATCH][at].as_py(), part[CHAIN][at].as_py()
    return last, found


def _with_copy(rows: pa.Table, kind: str, lsn: int, table: Table) -> pa.Table:
    count = len(rows)
    moment = pa.array(np.repeat(now_ms() * 1000, count), pa.int64())
    numbers = np.zeros(count, np.int64)
    return with_further(rows, [[kind] * count, moment, np.repeat(lsn, count), pa.nulls(count), numbers], table)


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
    names = [*key, CHANGE, LSN, NUMBER]
    schema = pa.schema([field for field in arrow_schema(writer.table) if field.name in names])
    parts = [
        part
        for file in writer.snapshot.files.values()
        for part in live_rows(writer.storage, Share(file), writer.table, schema.names)
    ]
    rows = pa.concat_tables([schema.empty_table(), *parts])
    if not rows.num_rows:
        return _with_copy(_only_keys(rows.select(key), table.table), "delete", at, table.table)
    order = pc.sort_indices(rows, [(LSN, "ascending"), (NUMBER, "ascending")])
    last = rows.take(order).group_by(key, use_threads=False).aggregate([(CHANGE, "last")])
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
