"""What a copy of a table adds to its history: its rows, and the end of each version whose key it does not have."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.table import Table
from cdc.sinks.lake.delta.damage import read_parts
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.history.facts import HistoryMoment
from cdc.sinks.lake.history.rows import with_further
from cdc.sinks.lake.history.shape import CHANGE, COPY, ENDS, SEQUENCE
from cdc.sinks.lake.table.writer import TableWriter

MEMORY: Final = "512MB"
"""Memory for finding ended versions; more goes to files beside the indexes."""
PART_ROWS: Final = 50_000
_GOING: Final = """
    SELECT {keys} FROM (SELECT {keys}, arg_max(change, sequence) AS last FROM versions GROUP BY {keys})
    WHERE last NOT IN ('delete', 'truncate')
"""


def copied_rows(source: TableWriter, at: HistoryMoment) -> Iterator[pa.Table]:
    """The table's rows, which are those of this moment, as rows of its history."""
    for part in _live_parts(source, source.table.column_names):
        yield _with_copy(part, COPY, at, source.table)


def ended_rows(history: TableWriter, source: TableWriter, at: HistoryMoment, spill: Path) -> Iterator[pa.Table]:
    """A `delete` for each key whose last version goes on in the history, and that the table does not have.

    Found by DuckDB, which keeps in memory what fits, and the rest in files below `spill`.
    """
    if not history.snapshot.files:
        return
    key, schema = list(source.table.key), arrow_schema(source.table)
    for keys in _find_gone(history, source, spill):
        named = keys.rename_columns(key)
        yield _with_copy(conform(named, schema), ENDS[0], at, source.table)


def live_keys(source: TableWriter) -> Iterator[pa.Table]:
    """The key columns of all of a table's rows, in parts."""
    return _live_parts(source, source.table.key)


def _find_gone(history: TableWriter, source: TableWriter, spill: Path) -> Iterator[pa.Table]:
    # only where a table is copied once more: verbs that open a lake start without it
    import duckdb

    key = list(source.table.key)
    # of our own naming: nothing of the user's stands in the statement
    names = [f"k{number}" for number in range(len(key))]
    keys = ", ".join(names)
    versions = _stream(_live_parts(history, [*key, CHANGE, SEQUENCE]), [*names, "change", "sequence"])
    live = _stream(_live_parts(source, key), names)
    spill.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(spill), "threads": 1}) as engine:
        if versions is None:
            return
        engine.register("versions", versions)
        engine.execute(f"CREATE TEMP TABLE going AS {_GOING.format(keys=keys)}")
        gone = f"SELECT {keys} FROM going"  # noqa: S608 - the names are ours
        if live is not None:
            engine.register("live", live)
            gone = f"{gone} ANTI JOIN live USING ({keys})"
        for batch in engine.sql(gone).to_arrow_reader(PART_ROWS):
            yield pa.Table.from_batches([batch])


def _stream(parts: Iterator[pa.Table], names: list[str]) -> pa.RecordBatchReader | None:
    """The parts as a stream with these names, read while it is consumed; None without any."""
    named = (part.rename_columns(names) for part in parts)
    first = next(named, None)
    if first is None:
        return None
    batches = chain.from_iterable(part.to_batches() for part in chain([first], named))
    return pa.RecordBatchReader.from_batches(first.schema, batches)


def _live_parts(writer: TableWriter, names: Iterable[str]) -> Iterator[pa.Table]:
    columns = [*names]
    for file in writer.snapshot.files.values():
        parts = live_rows(writer.storage, Share(file), writer.table, columns)
        yield from read_parts(parts, writer.table.name, file.path)


def _with_copy(rows: pa.Table, kind: str, at: HistoryMoment, table: Table) -> pa.Table:
    count = len(rows)
    moment = pa.array(np.repeat(at.ms * 1000, count), pa.int64())
    kinds = pc.fill_null(pa.nulls(count, pa.string()), kind)
    return with_further(rows, [kinds, moment, np.repeat(at.lsn, count), pa.nulls(count)], table)
