"""Commit a batch's net effect on one table, without a join or a Spark job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from cdc.columns.arrays import Integers, Mask
from cdc.columns.feed import FeedRows
from cdc.columns.netting.batch import TableEffect, WrittenRows
from cdc.columns.netting.net_changes import NetChanges
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys, empty_keys
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import DivergenceError, RefusedError, TableLostError
from cdc.core.fail_points import reach
from cdc.sinks.lake.delta import data_files
from cdc.sinks.lake.delta.actions import Action, Cdc
from cdc.sinks.lake.delta.deletion_vectors import VectorFile
from cdc.sinks.lake.delta.log import ConflictError
from cdc.sinks.lake.delta.snapshot import DataFile, TxnUpdate, now_ms, with_vector
from cdc.sinks.lake.pace import FILE_BYTES, CommitCost
from cdc.sinks.lake.table.writer import MAX_CONFLICTS, TableWriter


@dataclass(frozen=True, slots=True)
class AppliedEffect:
    """The table version of an applied effect.

    `changes`: the changed rows, if they are in memory. `file_bytes`: the size of their files.
    """

    version: int
    changes: FeedRows | None
    file_bytes: int
    cost: CommitCost


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """The content of a commit: delete the rows of these keys (all rows if `is_truncated`), add these files.

    `deleted`: keys that end without a row. `change_files`: path and size of change data outside data files. `marks`:
    progress that is noted besides the commit's own. `passing`: keys that no row may have, as a batch gave them to rows
    of its own for a while.
    """

    is_truncated: bool
    files: Sequence[WrittenRows]
    deleted: KeyBits
    change_files: Sequence[tuple[str, int]]
    marks: Sequence[TxnUpdate] = ()
    passing: KeyBits = field(default_factory=empty_keys)

    @property
    def change_data(self) -> Sequence[tuple[str, int]]:
        """Path and size of all files that have its changes."""
        return [*((file.path, file.size) for file in self.files), *self.change_files]

    @property
    def file_bytes(self) -> int:
        return sum(size for _, size in self.change_data)


def apply_effect(writer: TableWriter, effect: TableEffect, move: TxnUpdate) -> AppliedEffect:
    """Commit an effect together with its `TxnUpdate`; raises as `commit` does.

    Raises DivergenceError when an update left values out and the table has no previous row, or when an inserted key
    exists; TableLostError when a file of the table is gone or damaged.
    """
    with writer.lock:
        writer.check()
        try:
            writer.rows.index_new_files()
            net = effect.net
            # after `index_new_files`: only indexed files yield old rows
            rows = _fill_unsent(writer, net)
            # durable before the commit that names them; after a kill, `delete_orphans` removes them
            files = [_write_rows(writer, rows, net)] if rows.num_rows else []
            changes = [write_deletes(writer, net.gone_columns)] if len(net.gone) and not net.truncated else []
        except FileNotFoundError as error:
            raise TableLostError(writer.table.name, f"{error.filename} is gone from the lake") from None
        reach("lake.rows.written")
        plan = CommitPlan(net.truncated, [*effect.written, *files], net.gone, changes, passing=net.passing)
        version = commit(writer, plan, move)
        # rows written by tasks are not in memory, and a TRUNCATE's changes are the removed files
        whole = not effect.written and not net.truncated
        feed = FeedRows(rows, net.gone_columns)
        cost = _cost(writer, effect, feed, [*files, *changes])
        return AppliedEffect(version, feed if whole else None, plan.file_bytes, cost)


def _cost(writer: TableWriter, effect: TableEffect, changed: FeedRows, files: Sequence[object]) -> CommitCost:
    vectors, text = writer.vector_bytes, writer.log.commit_bytes
    own = changed.nbytes + sum(file.size for file in effect.written)
    return CommitCost(
        own, vectors + text + len(files) * FILE_BYTES, len(files) + len(effect.written) + 1 + (vectors > 0)
    )


def commit(writer: TableWriter, effect: CommitPlan, move: TxnUpdate) -> int:
    """Commit a plan's files, which are written already; returns the table's version.

    Retries after other writers' commits. Raises RefusedError when another writer applied the batch, TableLostError when
    one changed rows.
    """
    with writer.lock:
        for _ in range(MAX_CONFLICTS):
            # others may move rows between files. If one moved the offset, it applied changes that this plan does not
            # know. Check before the first try, too: maintenance may have read that commit already
            if not move.is_current(writer.snapshot):
                moved = writer.snapshot.transactions.get(move.app_id)
                raise RefusedError(
                    f"another writer moved {writer.table.name} to offset {moved}", "stop the other `cdc follow`"
                )
            try:
                return _try_commit(writer, effect, move)
            except ConflictError:
                writer.refresh()
        raise RefusedError(f"other writers kept {writer.table.name} busy", "stop what else writes to the lake")


def _try_commit(writer: TableWriter, effect: CommitPlan, move: TxnUpdate) -> int:
    writer.rows.index_new_files()
    # on every try: another writer may have added files and vectors
    marks = {} if effect.is_truncated else _grow_vectors(writer, effect)
    # all vectors of a commit share one file
    now, vectors = now_ms(), VectorFile(writer.storage.vectors_in_log_bytes)
    files = {path: data_files.with_row_count(writer.storage, writer.snapshot.files[path]) for path in marks}
    removals = [_delete_rows(files[path], rows, vectors, now) for path, rows in marks.items()]
    if effect.is_truncated:
        removals.append([file.remove_action(now) for file in writer.snapshot.files.values()])
    if vectors.content:
        writer.storage.write(vectors.path, vectors.content)
    reach("lake.vectors.written")
    writer.vector_bytes = len(vectors.content)
    actions = [
        *(action for actions_of_file in removals for action in actions_of_file),
        *(DataFile(file.path, file.size, file.rows, file.statistics, now).add_action() for file in effect.files),
        *_cdc_actions(effect),
        *(mark.action for mark in effect.marks),
        move.action,
    ]
    return writer.commit(actions, "WRITE", marks, {file.path: file.keys for file in effect.files})


def _grow_vectors(writer: TableWriter, effect: CommitPlan) -> dict[str, BitMap]:
    """The vectors that delete the plan's rows; for written keys, also their former rows."""
    if not writer.table.key:
        return writer.vectors_deleting_rows(effect.deleted)
    # written keys, too: an update deletes the previous row
    keys = concat_keys([*(file.keys for file in effect.files), effect.deleted, effect.passing])
    # a deleted key had a row
    ended = [np.ones(len(effect.deleted), np.bool_), np.zeros(len(effect.passing), np.bool_)]
    existed = [*(file.existed for file in effect.files), *ended]
    return writer.vectors_deleting_keys(keys, ~np.concatenate(existed))


def _delete_rows(file: DataFile, rows: BitMap, vectors: VectorFile, now: int) -> list[Action]:
    """The actions that delete rows of a file; a file without live rows is removed."""
    if len(rows) == file.rows:
        return [file.remove_action(now)]
    # remove it with its old vector: otherwise two logical files would share one path
    return [file.remove_action(now), with_vector(file, vectors.add(rows)).add_action()]


def _cdc_actions(effect: CommitPlan) -> list[Action]:
    """The commit's `cdc` actions: all its new files, except after a TRUNCATE.

    A commit with one `cdc` action has to list all its changes there (Delta protocol, "Add CDC File").
    """
    if effect.is_truncated:
        return []
    return [Cdc(path, size, {}) for path, size in effect.change_data]


def _write_rows(writer: TableWriter, rows: pa.Table, net: NetChanges) -> WrittenRows:
    # after a TRUNCATE the files themselves are the change data
    changes = None if net.truncated else data_files.change_types(net.existed)
    file = data_files.write(writer.storage, rows, writer.statistics_columns, changes)
    return WrittenRows(file.path, file.size, file.rows, file.stats, net.keys, net.existed)


def write_deletes(writer: TableWriter, keys: pa.Table) -> tuple[str, int]:
    """Write deletes as change data: the keys, with nulls in other columns."""
    schema = arrow_schema(writer.table)
    columns = [
        keys[field.name] if field.name in keys.column_names else pa.nulls(len(keys), field.type) for field in schema
    ]
    rows = pa.Table.from_arrays(columns, schema=schema)
    return data_files.write_changes(
        writer.storage, rows.append_column(data_files.CHANGE_TYPE, pa.repeat("delete", len(keys)))
    )


def _fill_unsent(writer: TableWriter, net: NetChanges) -> pa.Table:
    """The effect's rows, with unsent values taken from the table's old rows."""
    lacking = np.flatnonzero(np.logical_or.reduce(list(net.unsent.values()))) if net.unsent else np.empty(0, np.int64)
    if not len(lacking):
        return net.rows
    old = writer.read_rows(net.base.take(lacking), list(net.unsent)) if net.has_base[lacking].all() else None
    if old is None:
        raise DivergenceError(
            f"{writer.table.name}: an update left out values, and the lake has no previous row to take them from",
            "something else has written to the lake: see `cdc verify`, then bootstrap the table again",
        )
    # sorted and unique, however many columns a row lacks
    return fill_unsent(net.rows, net.unsent, old, np.searchsorted(lacking, np.arange(len(net.rows))))


def fill_unsent(rows: pa.Table, unsent: Mapping[str, Mask], old: pa.Table, of_old: Integers) -> pa.Table:
    """The rows, with unsent values taken from the `old` ones; `of_old`: for each row, the place of its old one."""
    for name, mask in unsent.items():
        at = rows.schema.get_field_index(name)
        # append the old rows and take from both: `replace_with_mask` does not support lists
        places = np.where(mask, len(rows) + of_old, np.arange(len(rows)))
        both = pa.chunked_array([*rows[name].chunks, *old[name].chunks], rows.schema.field(at).type)
        rows = rows.set_column(at, rows.schema.field(at), both.take(pa.array(places)))
    return rows
