"""One history that is kept: where it ends, and how a batch of rows is added to it."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.netting.batch import WrittenRows
from cdc.columns.rows.key_fingerprints import empty_keys
from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.position import Lsn
from cdc.core.table import Table
from cdc.sinks.lake.delta import data_files
from cdc.sinks.lake.delta.damage import read_parts
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.delta.snapshot import DataFile, TxnUpdate
from cdc.sinks.lake.history.chain import digest_batch, extend
from cdc.sinks.lake.history.facts import HistoryEnd, HistoryFacts, HistoryMoment
from cdc.sinks.lake.history.shape import BATCH, CHAIN, COMMITTED_AT, LSN, SEQUENCE
from cdc.sinks.lake.table.commit import CommitPlan, commit
from cdc.sinks.lake.table.writer import TableWriter

BATCH_BYTES: Final = 32 * 1024 * 1024
"""Rows of a copy are gathered to batches of the chain of about this size in memory, and so is a TRUNCATE's."""
FILE_BYTES: Final = 512 * 1024 * 1024
"""A file of a copy has rows of about this size in memory, before they are encoded."""


@dataclass(slots=True)
class KeptHistory:
    """The present epoch of a history, and where it ends."""

    writer: TableWriter
    facts: HistoryFacts
    end: HistoryEnd

    def append(self, parts: Iterable[pa.Table], move: TxnUpdate, marks: Sequence[TxnUpdate] = ()) -> None:
        """Add rows in their order, in batches of bounded size, all in one commit with these positions.

        The parts are read while they are written: a whole table is never in memory.
        """
        with self.writer.lock:
            numbering = _Numbering(self.writer.table, self.end)
            files = list(_write_files(self.writer, numbering, _gather(parts)))
            commit(self.writer, CommitPlan(False, files, empty_keys(), [], marks), move)
            self.end = numbering.end

    def describe(self, table: Table, facts: HistoryFacts, lsn: Lsn) -> None:
        """Commit the history's columns and facts as of this LSN, if they are others than before."""
        if (table.column_names, facts) != (self.writer.table.column_names, self.facts):
            self.writer.add_columns(table, lsn, facts.as_property())
            self.facts = facts


def find_end(writer: TableWriter, after: HistoryEnd) -> HistoryEnd:
    """Where a history ends, by its rows; `after`: where the epoch before ended, if it has none."""
    end = after
    for file in _newest_files(writer):
        parts = live_rows(writer.storage, Share(file), writer.table, [SEQUENCE, BATCH, CHAIN, LSN, COMMITTED_AT])
        for part in read_parts(parts, writer.table.name, file.path):
            last = pc.max(part[SEQUENCE]).as_py()
            if last is not None and last > end.sequence:
                end = _to_end(part.slice(pc.index(part[SEQUENCE], last).as_py(), 1).to_pylist()[0])
    return end


def _to_end(row: dict[str, Any]) -> HistoryEnd:
    at = row[COMMITTED_AT]
    assert isinstance(at, datetime)
    return HistoryEnd(row[SEQUENCE], row[BATCH], row[CHAIN], HistoryMoment(row[LSN], round(at.timestamp() * 1000)))


def _newest_files(writer: TableWriter) -> Iterator[DataFile]:
    """The files that may have the last row."""
    highest = {
        file: json.loads(file.stats).get("maxValues", {}).get(SEQUENCE) for file in writer.snapshot.files.values()
    }
    last = max((sequence for sequence in highest.values() if sequence is not None), default=None)
    # other writers' files may have no statistics
    return (file for file, sequence in highest.items() if sequence in (None, last))


def _gather(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows in tables of about BATCH_BYTES; without empty ones."""
    held, size = list[pa.Table](), 0
    for rows in parts:
        held, size = [*held, rows] if len(rows) else held, size + rows.nbytes
        if held and size >= BATCH_BYTES:
            yield pa.concat_tables(held)
            held, size = [], 0
    if held:
        yield pa.concat_tables(held)


class _Numbering:
    """Gives rows their numbers and their places in the chain; `end`: where the history ends with them."""

    def __init__(self, table: Table, end: HistoryEnd) -> None:
        self._table = table
        self._schema = arrow_schema(table)
        self.end = end

    def number(self, rows: pa.Table) -> pa.Table:
        """The rows as the next batch of the chain."""
        count, batch = len(rows), self.end.batch + 1
        sequence = self.end.sequence + 1 + np.arange(count)
        place = [pa.array(sequence, pa.int64()), pa.array(np.repeat(batch, count)), pa.nulls(count, pa.string())]
        placed = dict(zip((SEQUENCE, BATCH, CHAIN), place, strict=True))
        for name, values in placed.items():
            rows = rows.append_column(name, values)
        rows = conform(rows, self._schema)
        chained = extend(self.end.chain, digest_batch(rows, self._table))
        chains = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), [chained]).cast(pa.string())
        rows = rows.set_column(rows.schema.get_field_index(CHAIN), self._schema.field(CHAIN), chains)
        self.end = _to_end(rows.slice(count - 1, 1).to_pylist()[0])
        return rows


def _write_files(writer: TableWriter, numbering: _Numbering, batches: Iterator[pa.Table]) -> Iterator[WrittenRows]:
    """Write the batches, many to a file; few rows as files of few rows are written everywhere."""
    for first in batches:
        second = next(batches, None)
        if second is None:
            yield _write_rows(writer, numbering.number(first))
        else:
            yield _write_large(writer, numbering, _take_bytes(chain([first, second], batches)))


def _take_bytes(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    size = 0
    for rows in batches:
        yield rows
        size += rows.nbytes
        if size >= FILE_BYTES:
            return


def _write_rows(writer: TableWriter, rows: pa.Table) -> WrittenRows:
    kinds = data_files.change_types(np.zeros(len(rows), np.bool_))
    return _written(data_files.write(writer.storage, rows, writer.statistics_columns, kinds))


def _write_large(writer: TableWriter, numbering: _Numbering, batches: Iterator[pa.Table]) -> WrittenRows:
    kind = pa.field(data_files.CHANGE_TYPE, pa.string())
    numbered = (_with_kinds(numbering.number(rows), kind) for rows in batches)
    pieces = chain.from_iterable(rows.to_batches() for rows in numbered)
    schema = arrow_schema(writer.table).append(kind)
    path, bounded = data_files.new_path(), writer.statistics_columns
    return _written(data_files.write_in_parts(writer.storage, path, pieces, schema, bounded))


def _with_kinds(rows: pa.Table, kind: pa.Field) -> pa.Table:
    return rows.append_column(kind, data_files.change_types(np.zeros(len(rows), np.bool_)))


def _written(file: DataFile) -> WrittenRows:
    # no keys: nobody looks for a row of a history by its key, so that none is indexed
    return WrittenRows(file.path, file.size, file.rows, file.stats, empty_keys(), np.zeros(0, np.bool_))
