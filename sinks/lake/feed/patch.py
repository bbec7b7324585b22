"""Puts rows of some keys as they are known to be, in a commit of its own, which moves no position.

Its change data names every key that it was given, also those whose rows were right: whoever is fed by the lake takes
them again.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cdc.columns.feed import FeedRows
from cdc.columns.netting.batch import WrittenRows
from cdc.columns.rows.join_fingerprints import are_among
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import HistoryLostError, TableLostError
from cdc.core.table import Table
from cdc.sinks.lake.delta import data_files
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.delta.snapshot import Snapshot, TxnUpdate
from cdc.sinks.lake.feed.commit_changes import CommitChanges
from cdc.sinks.lake.storage.base import Storage
from cdc.sinks.lake.table.commit import CommitPlan, commit, write_deletes
from cdc.sinks.lake.table.indexed_rows import sort_by_file
from cdc.sinks.lake.table.writer import TableWriter

MOST_BYTES = 256 * 2**20
"""Of changes that are looked through for keys; of more, any key may be one."""


def find_changed_keys(log: DeltaLog, storage: Storage, table: Table, since: int, until: int) -> KeyBits | None:
    """The keys that the commits after version `since`, up to `until`, name; None if nobody can tell, or not soon."""
    try:
        commits = [CommitChanges(table, storage, log.actions(at), at, None) for at in range(since + 1, until + 1)]
        if sum(commit.change_bytes for commit in commits) > MOST_BYTES:
            return None
        # the keys alone, and of them their bits: in memory, rows take many times as much as in their files
        parts = (keys for each in commits if each.change_bytes for keys in each.changed_keys())
        return concat_keys([row_bits(keys, table) for keys in parts])
    except (HistoryLostError, FileNotFoundError):
        return None


def patch_rows(writer: TableWriter, put: FeedRows, since: int, app_id: str, *, anew: bool) -> int:
    """Give keys these rows, or none, as of the table's version `since`; returns how many keys were left out.

    Those are the keys that have changed since. `anew`: trust no index of keys. Raises as `commit` does.
    """
    with writer.lock:
        writer.refresh()
        if anew:
            writer.rows.read_anew()
        table, snapshot = writer.table, writer.snapshot
        changed = find_changed_keys(writer.log, writer.storage, table, since, snapshot.version)
        if changed is None:
            return len(put)
        rows, gone = _without(put.rows, table, changed), _without(put.gone, table, changed)
        patch = FeedRows(rows, gone)
        if len(patch):
            _commit(writer, patch, app_id)
        return len(put) - len(patch)


def name_again(writer: TableWriter, keys: pa.Table, app_id: str) -> None:
    """Commit the rows that these keys have as they are: nothing changes but that the feed has them once more."""
    with writer.lock:
        writer.refresh()
        table = writer.table
        writer.rows.index_new_files()
        bits = row_bits(keys, table)
        hits = writer.rows.find_live(bits)
        rows = writer.rows.read(sort_by_file(hits), arrow_schema(table))
        gone = _without(keys, table, row_bits(rows, table))
        _commit(writer, FeedRows(rows, gone), app_id)


def _without(rows: pa.Table, table: Table, keys: KeyBits) -> pa.Table:
    return rows.filter(pa.array(~are_among(row_bits(rows, table), keys)))


def _commit(writer: TableWriter, put: FeedRows, app_id: str) -> None:
    try:
        writer.rows.index_new_files()
        files = [_write(writer, put.rows)] if put.rows.num_rows else []
        deletes: Sequence[tuple[str, int]] = [write_deletes(writer, put.gone)] if put.gone.num_rows else []
    except FileNotFoundError as error:
        raise TableLostError(writer.table.name, f"{error.filename} is gone from the lake") from None
    plan = CommitPlan(False, files, row_bits(put.gone, writer.table), deletes)
    commit(writer, plan, _stay(writer.snapshot, app_id))


def _write(writer: TableWriter, rows: pa.Table) -> WrittenRows:
    keys = row_bits(rows, writer.table)
    # as if all had one: a key that has none, or several, is no contradiction here
    existed = np.ones(len(keys), np.bool_)
    file = data_files.write(writer.storage, rows, writer.statistics_columns, data_files.change_types(existed))
    return WrittenRows(file.path, file.size, file.rows, file.stats, keys, existed)


def _stay(snapshot: Snapshot, app_id: str) -> TxnUpdate:
    """The table's position as it is; of one without any, a mark beside it."""
    at = snapshot.transactions.get(app_id)
    if at is not None:
        return TxnUpdate(app_id, at, at)
    beside = f"{app_id} repairs"
    return TxnUpdate(beside, snapshot.transactions.get(beside), 0)
