"""A batch's net effect becomes one commit of its table, without a join and without a Spark job."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from cdc.columns.feed import FeedRows
from cdc.columns.netting.batch import TableEffect, WrittenRows
from cdc.columns.netting.net_changes import NetChanges
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys
from cdc.columns.values.arrow_types import arrow_schema
from cdc.core.errors import DivergenceError, RefusedError, TableLostError
from cdc.core.table import Table
from sinks.lake.delta import data_files
from sinks.lake.delta.deletion_vectors import VectorFile
from sinks.lake.delta.log import Conflict
from sinks.lake.delta.snapshot import Action, DataFile, Move, now_ms, with_vector
from sinks.lake.pace import FILE_BYTES, Cost
from sinks.lake.table.writer import CONFLICTS, LiveTable


@dataclass(frozen=True, slots=True)
class Applied:
    """The table's version that an effect has become; `changes`: what changed, where that is in memory."""

    version: int
    changes: FeedRows | None
    cost: Cost


@dataclass(frozen=True, slots=True)
class Effect:
    """What a commit does: rows of these keys go (all rows, if `truncated`), these files come.

    `gone`: keys that end without a row; `changes`: paths and sizes of the change data that no data file has.
    """

    truncated: bool
    files: Sequence[WrittenRows]
    gone: KeyBits
    changes: Sequence[tuple[str, int]]


def apply(live: LiveTable, effect: TableEffect, move: Move) -> Applied:
    """Commit an effect with its move. Raises as `commit` does.

    Raises DivergenceError when a row was sent in part and the table has no row that it was changed from, or when a key
    was inserted that the table has, TableLostError when a file of the table is gone or damaged.
    """
    with live.lock:
        live.check()
        try:
            live.take_in_files()
            net = effect.net
            # behind `take_in_files`: old rows are found in files that the index knows only
            rows = _filled(live, net)
            # on the disk before the commit that names them; what a killed process left in no table, `sweep` finds
            files = [_write(live, rows, net)] if rows.num_rows else []
            changes = [_write_gone(live, net.gone_columns)] if len(net.gone) and not net.truncated else []
        except FileNotFoundError as error:
            raise TableLostError(live.table.name, f"{error.filename} is gone from the lake") from None
        version = commit(live, Effect(net.truncated, [*effect.written, *files], net.gone, changes), move)
        whole = not effect.written and not net.truncated
        feed = FeedRows(rows, net.gone_columns)
        return Applied(version, feed if whole else None, _cost(live, effect, feed, [*files, *changes]))


def _cost(live: LiveTable, effect: TableEffect, changed: FeedRows, files: Sequence[object]) -> Cost:
    vectors, text = live.vector_bytes, live.log.commit_bytes
    own = changed.nbytes + sum(each.size for each in effect.written)
    return Cost(own, vectors + text + len(files) * FILE_BYTES, len(files) + len(effect.written) + 1 + (vectors > 0))


def commit(live: LiveTable, effect: Effect, move: Move) -> int:
    """Commit files that are written already, with their move; gives the table's version.

    Behind another writer's commit it starts anew on what that left. Raises RefusedError when another hand has moved,
    TableLostError when one has changed rows.
    """
    with live.lock:
        for _ in range(CONFLICTS):
            # others may put rows into other files; one that moves on has applied what this effect does not know, and
            # the upkeep may have read its commit before this one was tried
            if not move.stands(live.state):
                moved = live.state.transactions.get(move.app_id)
                raise RefusedError(
                    f"another writer moved {live.table.name} to offset {moved}", "stop the other `cdc follow`"
                )
            try:
                return _commit(live, effect, move)
            except Conflict:
                live.refresh()
        raise RefusedError(f"other writers kept {live.table.name} busy", "stop what else writes to the lake")


def _commit(live: LiveTable, effect: Effect, move: Move) -> int:
    live.take_in_files()
    # anew with every try: another writer has brought files, and vectors, that were not looked at
    marks = {} if effect.truncated else _marks(live, effect)
    now, vectors = now_ms(), VectorFile(live.storage.vectors_in_log_bytes)
    went = [_without(live.state.files[path], rows, vectors, now) for path, rows in marks.items()]
    if effect.truncated:
        went.append([file.removed(now) for file in live.state.files.values()])
    if vectors.content:
        live.storage.write(vectors.path, vectors.content)
    live.vector_bytes = len(vectors.content)
    actions = [
        *(action for each in went for action in each),
        *(_data_file(each, now).added() for each in effect.files),
        *_change_data(effect),
        move.action,
    ]
    return live.commit(actions, "WRITE", marks, {each.path: each.keys for each in effect.files})


def _marks(live: LiveTable, effect: Effect) -> dict[str, BitMap]:
    """The vectors that take away what goes; of a key, also the rows in whose place others come."""
    if not live.table.key:
        return live.taken(effect.gone)
    keys = concat_keys([*(each.keys for each in effect.files), effect.gone])
    # what is gone had a row, or it would not be there
    existed = [*(each.existed for each in effect.files), np.ones(len(effect.gone), np.bool_)]
    return live.marked(keys, ~np.concatenate(existed))


def _without(file: DataFile, rows: BitMap, vectors: VectorFile, now: int) -> list[Action]:
    """The actions by which a file loses rows; one that has none left is removed."""
    if len(rows) == file.rows:
        return [file.removed(now)]
    # removed with the vector that it had: without that, two logical files would have one path
    return [file.removed(now), with_vector(file, vectors.add(rows)).added()]


def _change_data(effect: Effect) -> list[Action]:
    """The commit's own files are its change data; after a TRUNCATE, the files that came and went are.

    With a single `cdc` action, readers look at nothing else (Delta protocol, "Add CDC File"): it is all or none.
    """
    named = [*((each.path, each.size) for each in effect.files), *effect.changes]
    return [
        {"cdc": {"path": path, "partitionValues": {}, "size": size, "dataChange": False}}
        for path, size in ([] if effect.truncated else named)
    ]


def _write(live: LiveTable, rows: pa.Table, net: NetChanges) -> WrittenRows:
    changes = None if net.truncated else data_files.change_types(net.existed)
    file = data_files.write(live.storage, rows, live.bounded, changes)
    return WrittenRows(file.path, file.size, file.rows, file.stats, net.keys, net.existed)


def _data_file(written: WrittenRows, now: int) -> DataFile:
    return DataFile(written.path, written.size, written.rows, written.statistics, now)


def _write_gone(live: LiveTable, keys: pa.Table) -> tuple[str, int]:
    """Deletes as change data: their keys, the other columns null."""
    schema = arrow_schema(live.table)
    columns = [
        keys[field.name] if field.name in keys.column_names else pa.nulls(len(keys), field.type) for field in schema
    ]
    rows = pa.Table.from_arrays(columns, schema=schema)
    return data_files.write_changes(
        live.storage, rows.append_column(data_files.CHANGE_TYPE, pa.repeat("delete", len(keys)))
    )


def _filled(live: LiveTable, net: NetChanges) -> pa.Table:
    """The net effect's rows, whole: what was not sent comes from the rows that are in the table."""
    lacking = np.flatnonzero(np.logical_or.reduce(list(net.unsent.values()))) if net.unsent else np.empty(0, np.int64)
    if not len(lacking):
        return net.rows
    old = live.rows_of(net.base.take(lacking), list(net.unsent)) if net.has_base[lacking].all() else None
    if old is None:
        raise _no_former_row(live.table)
    rows = net.rows
    for name, mask in net.unsent.items():
        at = rows.schema.get_field_index(name)
        # from the old rows, put behind the new ones: `lacking` ascends, and has each row once, however many of its
        # columns lack. Not `replace_with_mask`, which knows no lists
        places = np.arange(len(rows))
        places[mask] = len(rows) + np.searchsorted(lacking, np.flatnonzero(mask))
        both = pa.chunked_array([*rows[name].chunks, *old[name].chunks], rows.schema.field(at).type)
        rows = rows.set_column(at, rows.schema.field(at), both.take(pa.array(places)))
    return rows


def _no_former_row(table: Table) -> DivergenceError:
    return DivergenceError(
        f"{table.name}: a changed row was sent in part, and the lake has no row that it was changed from",
        "something else has written to the lake: see `cdc verify`, then bootstrap the table again",
    )
