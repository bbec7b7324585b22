"""Lake tables without Spark: load a copy, and apply batches of changes."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from cdc.columns.netting.batch import TableEffect
from cdc.columns.netting.net_changes import fold
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.copied_file import CopiedFile
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Table
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.snapshot import TxnUpdate
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.table.commit import apply_effect
from cdc.sinks.lake.table.load import LakeCopyWriter, load_copy
from cdc.sinks.lake.table.writer import TableWriter
from tests.support.histories import THINGS
from tests.support.lake.places import PlacedLake
from tests.support.model import Change, CommitOrder, Key, Row, Update
from tests.support.model_changes import as_columns

APP = "cdc/p/1"


def copy_rows(lake: Lake, table: Table, rows: Sequence[Row], files: int = 1) -> None:
    """Make these rows the table's content, in `files` copied files."""
    parts = np.array_split(np.arange(len(rows)), files)
    load_copy(
        lake, table, [write_copy(lake, table, [rows[at] for at in part]) for part in parts], Bookmark(Lsn(1), 4711, 1)
    )


def write_copy(lake: Lake, table: Table, rows: Iterable[Row]) -> CopiedFile:
    """Write a copied file of these rows without loading it."""
    writer = LakeCopyWriter(table, lake.table_storage(table.name))
    writer.storage.make_root()
    return writer(pa.Table.from_pylist([dict(row) for row in rows], arrow_schema(table)).to_batches())


def open_writer(lake: PlacedLake, table: Table = THINGS, index: str = "index") -> TableWriter:
    """Open the table as a new process does."""
    log = layout.open_owned_log(lake, table.name)
    assert log is not None
    return TableWriter(table, lake.table_storage(table.name), log, lake.indexes / index)


def apply(writer: TableWriter, changes: Sequence[Change], version: int) -> None:
    columns, before = as_columns(writer.table, changes), writer.snapshot.transactions.get(APP)
    apply_effect(writer, TableEffect(fold(columns, columns.tx_id)), TxnUpdate(APP, before, version))


def row(key: int, text: str | None) -> Row:
    return {"id": key, "small": key, "big": text}


def update(rank: int, *rows: Row) -> list[Change]:
    """One transaction that updates these rows."""
    return [Update(THINGS.name, CommitOrder(rank, n), (values["id"],), values) for n, values in enumerate(rows, 1)]


def by_key(rows: Sequence[Mapping[str, object]]) -> dict[object, Mapping[str, object]]:
    by_key_values = {values["id"]: values for values in rows}
    assert len(by_key_values) == len(rows), "a key is there twice"
    return by_key_values


def read_by_delta_rs(
    lake: PlacedLake, version: int | None = None, table: Table = THINGS
) -> dict[object, Mapping[str, object]]:
    query = QueryBuilder().register("t", DeltaTable(lake.folder(table.name), version, dict(lake.options)))
    return by_key(pa.table(query.execute("SELECT id, small, big FROM t").read_all()).to_pylist())


def by_id(rows: Mapping[Key, Row]) -> dict[object, Mapping[str, object]]:
    return {key[0]: dict(values) for key, values in rows.items()}
