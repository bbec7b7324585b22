"""Tables of a lake for tests, without Spark: a copy taken in, and batches of changes applied to it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

from cdc.columns.arrow_types import arrow_schema
from cdc.columns.batch import TableEffect
from cdc.columns.fold import fold
from cdc.core.change import Change, Key, Place, Row, Update
from cdc.core.copied_file import CopiedFile
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Table
from sinks.lake import layout, write
from sinks.lake.copied_files import take_in
from sinks.lake.layout import Lake
from sinks.lake.live_table import LiveTable
from tests.columns.model_changes import as_columns
from tests.core.histories import THINGS

APP = "cdc/p/1"


def copied(lake: Lake, table: Table, rows: Sequence[Row], files: int = 1) -> None:
    """A copy of these rows in so many files becomes the table."""
    folder = Path(lake.folder(table.name))
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for number, part in enumerate(np.array_split(np.arange(len(rows)), files)):
        found = pa.Table.from_pylist([dict(rows[at]) for at in part], arrow_schema(table))
        path = folder / f"copy-{number}.parquet"
        pq.write_table(found, path)
        parts.append(CopiedFile(path.name, path.stat().st_size, found.num_rows))
    take_in(lake, table, parts, Bookmark(Lsn(1), 4711, 1))


def opened(lake: Lake, table: Table = THINGS, index: str = "index") -> LiveTable:
    """The table as a new process has it."""
    log = layout.owned(lake, table.name)
    assert log is not None
    return LiveTable(table, lake.table(table.name), log, Path(lake.path, index))


def apply(live: LiveTable, changes: Sequence[Change], version: int) -> None:
    columns = as_columns(live.table, changes)
    write.apply(live, TableEffect(fold(columns, columns.tx_id)), write.Position(APP, version))


def row(key: int, text: str | None) -> Row:
    return {"id": key, "small": key, "big": text}


def update(rank: int, *rows: Row) -> list[Change]:
    """One transaction that changes these rows."""
    return [Update(THINGS.name, Place(rank, n), (each["id"],), each) for n, each in enumerate(rows, 1)]


def by_key(rows: Sequence[Mapping[str, object]]) -> dict[object, Mapping[str, object]]:
    found = {each["id"]: each for each in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def read_by_delta_rs(
    lake: Lake, version: int | None = None, table: Table = THINGS
) -> dict[object, Mapping[str, object]]:
    query = QueryBuilder().register("t", DeltaTable(lake.folder(table.name), version=version))
    return by_key(pa.table(query.execute("SELECT id, small, big FROM t").read_all()).to_pylist())


def expected(rows: Mapping[Key, Row]) -> dict[object, Mapping[str, object]]:
    return {key[0]: dict(each) for key, each in rows.items()}
