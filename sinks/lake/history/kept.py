"""One history that is kept: where it ends, and how a batch of rows is added to it."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.netting.batch import WrittenRows
from cdc.columns.rows.key_fingerprints import empty_keys
from cdc.columns.values.arrow_types import arrow_schema
from cdc.sinks.lake.delta import data_files
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.delta.snapshot import DataFile, TxnUpdate
from cdc.sinks.lake.history.chain import BEGINNING, digest_batch, extend
from cdc.sinks.lake.history.shape import BATCH, CHAIN, SEQUENCE
from cdc.sinks.lake.table.commit import CommitPlan, commit
from cdc.sinks.lake.table.writer import TableWriter


@dataclass(frozen=True, slots=True)
class HistoryEnd:
    """The sequence number of a history's last row, the number of its last batch, and the chain up to it."""

    sequence: int = 0
    batch: int = 0
    chain: str = BEGINNING


@dataclass(slots=True)
class KeptHistory:
    """A history, and where it ends."""

    writer: TableWriter
    end: HistoryEnd

    def append(self, parts: Iterable[pa.Table], move: TxnUpdate, marks: Sequence[TxnUpdate] = ()) -> None:
        """Add rows in their order, each part as a batch of the chain, all in one commit with these positions."""
        with self.writer.lock:
            end, files = self.end, list[WrittenRows]()
            for rows in parts:
                if len(rows):
                    rows, end = _number(rows, end, self.writer)
                    files.append(_write(self.writer, rows))
            commit(self.writer, CommitPlan(False, files, empty_keys(), [], marks), move)
            self.end = end


def find_end(writer: TableWriter) -> HistoryEnd:
    """Where a history ends, by its rows."""
    end = HistoryEnd()
    for file in _newest_files(writer):
        for part in live_rows(writer.storage, Share(file), writer.table, [SEQUENCE, BATCH, CHAIN]):
            last = pc.max(part[SEQUENCE]).as_py()
            if last is not None and last > end.sequence:
                at = pc.index(part[SEQUENCE], last).as_py()
                end = HistoryEnd(last, part[BATCH][at].as_py(), part[CHAIN][at].as_py())
    return end


def _newest_files(writer: TableWriter) -> Iterator[DataFile]:
    """The files that may have the last row."""
    highest = {
        file: json.loads(file.stats).get("maxValues", {}).get(SEQUENCE) for file in writer.snapshot.files.values()
    }
    last = max((sequence for sequence in highest.values() if sequence is not None), default=None)
    # other writers' files may have no statistics
    return (file for file, sequence in highest.items() if sequence in (None, last))


def _number(rows: pa.Table, end: HistoryEnd, writer: TableWriter) -> tuple[pa.Table, HistoryEnd]:
    """The rows with their numbers and their place in the chain, and where the history ends with them."""
    count, schema = len(rows), arrow_schema(writer.table)
    batch, sequence = end.batch + 1, end.sequence + 1 + np.arange(count)
    rows = rows.append_column(schema.field(SEQUENCE), pa.array(sequence, pa.int64()))
    chain = extend(end.chain, digest_batch(rows, writer.table))
    rows = rows.append_column(schema.field(BATCH), pa.array(np.repeat(batch, count), pa.int64()))
    rows = rows.append_column(schema.field(CHAIN), pa.array([chain] * count, pa.string()))
    return rows.select(schema.names).cast(schema), HistoryEnd(int(sequence[-1]), batch, chain)


def _write(writer: TableWriter, rows: pa.Table) -> WrittenRows:
    none_existed = np.zeros(len(rows), np.bool_)
    file = data_files.write(writer.storage, rows, writer.statistics_columns, data_files.change_types(none_existed))
    # no keys: nobody looks for a row of a history by its key, so that none is indexed
    return WrittenRows(file.path, file.size, file.rows, file.stats, empty_keys(), none_existed[:0])
