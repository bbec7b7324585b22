"""Write the rows of a view that differ, and delete those that are gone, in one commit with the position."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cdc.columns.feed import FeedRows
from cdc.columns.netting.batch import WrittenRows
from cdc.columns.rows.join_fingerprints import are_among
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.core.errors import TableLostError
from cdc.sinks.lake.delta import data_files
from cdc.sinks.lake.delta.snapshot import TxnUpdate
from cdc.sinks.lake.feed.change_cache import RecentChanges
from cdc.sinks.lake.table.commit import CommitPlan, commit, write_deletes
from cdc.sinks.lake.table.writer import TableWriter


@dataclass(frozen=True, slots=True)
class ViewChanges:
    """What became of some rows of a view: `rows` are new or differ now, `gone` (key columns) are no more.

    `hashed`: the same rows as keys and hashes. `existed`: the keys that had a row before, of whatever rows were
    compared.
    """

    rows: pa.Table
    hashed: pa.Table
    gone: pa.Table
    existed: pa.Table

    def __len__(self) -> int:
        return int(self.rows.num_rows + self.gone.num_rows)


def write_changes(writer: TableWriter, changes: ViewChanges, app_id: str, to: int) -> tuple[int, RecentChanges]:
    """Commit the changes; returns the version, and the changes as the feed has them. `to`: the END offset of the cut.

    Raises as `commit` does.
    """
    with writer.lock:
        writer.check()
        try:
            writer.rows.index_new_files()
            files = [_write_rows(writer, changes)] if changes.rows.num_rows else []
            deletes = [write_deletes(writer, changes.gone)] if changes.gone.num_rows else []
        except FileNotFoundError as error:
            raise TableLostError(writer.table.name, f"{error.filename} is gone from the lake") from None
        plan = CommitPlan(False, files, row_bits(changes.gone, writer.table), deletes)
        move = TxnUpdate(app_id, writer.snapshot.transactions.get(app_id), to)
        return commit(writer, plan, move), RecentChanges(FeedRows(changes.rows, changes.gone), plan.file_bytes)


def _write_rows(writer: TableWriter, changes: ViewChanges) -> WrittenRows:
    keys = row_bits(changes.rows, writer.table)
    existed = are_among(keys, row_bits(changes.existed, writer.table)) if len(keys) else np.empty(0, np.bool_)
    types = data_files.change_types(existed)
    file = data_files.write(writer.storage, changes.rows, writer.statistics_columns, types)
    if writer.rows.row_files and writer.rows.row_files.schema == changes.hashed.schema:
        # the next changes are compared with these
        writer.rows.row_files.hold(file.path, changes.hashed)
    return WrittenRows(file.path, file.size, file.rows, file.stats, keys, existed)


def find_key_problem(rows: pa.Table, key: Sequence[str]) -> str | None:
    """Why these columns are no key of the rows, with an example; None if they are."""
    for name in key:
        if rows[name].null_count:
            return f"its key column {name} is null in a row of the result"
    groups = rows.select(key).group_by(list(key)).aggregate([([], "count_all")])
    twice = groups.filter(pa.compute.greater(groups["count_all"], 1)).slice(0, 1).to_pylist()
    if not twice:
        return None
    where = " and ".join(f"{name} = {twice[0][name]}" for name in key)
    return f"its key is not unique: {twice[0]['count_all']} rows of the result have {where}"
