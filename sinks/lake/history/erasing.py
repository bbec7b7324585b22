"""Erases rows of a history, and leaves tombstones by which its chain is checked on."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.errors import RefusedError
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta import data_files
from cdc.sinks.lake.delta.actions import Action
from cdc.sinks.lake.delta.deletion_vectors import VectorFile
from cdc.sinks.lake.delta.log import ConflictError
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.delta.snapshot import now_ms, with_vector
from cdc.sinks.lake.history.chain import digest_batch
from cdc.sinks.lake.history.erased import NOTHING, ErasedBatch
from cdc.sinks.lake.history.facts import HistoryFacts
from cdc.sinks.lake.history.kept import find_end
from cdc.sinks.lake.history.shape import BATCH, CHAIN, SEQUENCE
from cdc.sinks.lake.table.erasure import Holds
from cdc.sinks.lake.table.writer import TableWriter

Sign = Callable[[bytes], tuple[str, str]]
"""Signs a content: the public key and the signature, in hex."""


def erase_rows(writer: TableWriter, facts: HistoryFacts, key: tuple[str, ...], holds: Holds, sign: Sign) -> int:
    """Delete the live rows with a key from one epoch, with a tombstone for each of their batches, in one commit.

    Returns how many rows. Their bytes stay until the past is deleted. Raises RefusedError when another writer
    was first.
    """
    with writer.lock:
        marks = _find_rows(writer, key, holds)
        if not marks:
            return 0
        batches = _list_batches(writer, marks)
        erased = _make_tombstones(writer, facts, batches, holds, key, sign)
        changed = replace(facts, erased=erased, reached=find_end(writer, facts.floor))
        try:
            _commit(writer, marks, changed)
        except ConflictError:
            raise RefusedError(f"another writer changed {writer.table.name}", "run `cdc erase` again") from None
    return sum(map(len, marks.values()))


def _find_rows(writer: TableWriter, key: tuple[str, ...], holds: Holds) -> dict[str, BitMap]:
    """The live rows with the key, by file."""
    found, schema = dict[str, BitMap](), pa.schema([arrow_schema(writer.table).field(name) for name in key])
    for path in writer.snapshot.files:
        start, rows = 0, BitMap()
        for part in data_files.read_groups(writer.storage, path, key):
            hits = np.flatnonzero(np.asarray(holds(conform(part, schema)))) + start
            rows |= BitMap(hits.astype(np.uint32))
            start += len(part)
        if rows := rows - writer.rows.vector(path):
            found[path] = rows
    return found


def _list_batches(writer: TableWriter, marks: Mapping[str, BitMap]) -> set[int]:
    batches = set[int]()
    for path, rows in marks.items():
        numbers = np.asarray(rows.to_array(), np.int64)
        batches |= {*data_files.read_rows(writer.storage, path, [BATCH], numbers)[BATCH].to_pylist()}
    return batches


def _make_tombstones(
    writer: TableWriter, facts: HistoryFacts, batches: set[int], holds: Holds, key: tuple[str, ...], sign: Sign
) -> tuple[ErasedBatch, ...]:
    known, rows = {each.batch: each for each in facts.erased}, _read_batches(writer, batches)
    for number in sorted(batches):
        own = rows.filter(pc.equal(rows[BATCH], number)).sort_by(SEQUENCE)
        left = own.filter(pc.invert(holds(own.select(list(key)))))
        first, count = known.get(number), len(own) - len(left)
        mark = ErasedBatch(
            number,
            first.before if first else digest_batch(own, writer.table),
            digest_batch(left, writer.table) if len(left) else NOTHING,
            own[CHAIN][0].as_py(),
            count + (first.rows if first else 0),
            now_ms(),
        )
        public, signature = sign(mark.content(str(writer.table.name)))
        known[number] = replace(mark, public=public, signature=signature)
    return tuple(known[number] for number in sorted(known))


def _read_batches(writer: TableWriter, batches: set[int]) -> pa.Table:
    """All live rows of some batches."""
    wanted, parts = pa.array(sorted(batches), pa.int64()), [arrow_schema(writer.table).empty_table()]
    for file in writer.snapshot.files.values():
        for part in live_rows(writer.storage, Share(file), writer.table):
            parts.append(part.filter(pc.is_in(part[BATCH], wanted)))
    return pa.concat_tables(parts)


def _commit(writer: TableWriter, marks: Mapping[str, BitMap], facts: HistoryFacts) -> None:
    now, vectors, actions = now_ms(), VectorFile(writer.storage.vectors_in_log_bytes), list[Action]()
    grown = {path: writer.rows.vector(path) | rows for path, rows in marks.items()}
    for path, vector in grown.items():
        file = data_files.with_row_count(writer.storage, writer.snapshot.files[path])
        actions.append(file.remove_action(now))
        if len(vector) < file.rows:
            actions.append(with_vector(file, vectors.add(vector)).add_action())
    if vectors.content:
        writer.storage.write(vectors.path, vectors.content)
    snapshot = writer.snapshot
    described = layout.add_columns_actions(snapshot, writer.table, layout.schema_lsn(snapshot), facts.as_property())
    writer.commit([*actions, *described], "ERASE", grown, {})
