"""The newest change of one row in the log, and the newest record of its key in the latest log."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.changes import Changes, Messages, Op
from cdc.columns.rows.documents import documents
from cdc.columns.rows.key_fingerprints import key_bits
from cdc.connect.capture.debezium_properties import placeholder
from cdc.core.table import Table
from cdc.core.text.plural import format_count
from cdc.core.transaction import TransactionEnd
from cdc.log.clients.reader import Reader
from cdc.log.names import change_topic, latest_topic, transaction_topic
from cdc.log.transaction_topic import read_ends_between
from cdc.run.pipeline import Pipeline
from cdc.run.trace.sighting import PlaceSighting, Row

_WORDS = {Op.CREATE: "inserted", Op.UPDATE: "updated", Op.DELETE: "deleted", Op.TRUNCATE: "truncated"}


@dataclass(frozen=True, slots=True)
class FoundChange:
    """A change of the row: where its message lies, its transaction, and the row as far as it was sent."""

    partition: int
    offset: int
    tx_id: int
    op: Op
    row: Row | None


def find_in_log(pipeline: Pipeline, table: Table, key: pa.RecordBatch, most: int) -> PlaceSighting:
    """The newest change of the row among the newest `most` messages of each partition of its topic."""
    topic, prefix = change_topic(pipeline.settings.log.prefix, table.name), pipeline.settings.log.prefix
    with pipeline.open_log() as reader:
        found = list(find_changes(pipeline, reader, topic, table, key, most))
        if not found:
            note = f"no change of it among the newest {format_count(most, 'message')} of each partition"
            return PlaceSighting("log", None, note=note)
        # a key's changes are in one partition, unless somebody has added some
        newest = max(found, key=lambda each: (each.tx_id, each.offset))
        end = _find_end(reader, transaction_topic(prefix), newest.tx_id, most)
    where = f"{_WORDS[newest.op]} by {topic}/{newest.partition}/{newest.offset}, transaction {newest.tx_id}"
    if end is None:
        return PlaceSighting("log", newest.row is not None, note=f"{where}, which has no END yet", row=newest.row)
    return PlaceSighting("log", newest.row is not None, end.lsn, end.committed_ms, where, newest.row)


def find_changes(
    pipeline: Pipeline, reader: Reader, topic: str, table: Table, key: pa.RecordBatch, most: int
) -> Iterator[FoundChange]:
    """The changes of the row with this key among the newest `most` messages of each partition."""
    wanted = key_bits(table.key_columns, [key[name] for name in table.key])
    decoder = Decoder(table, placeholder(pipeline.name))
    for messages in _read_tail(reader, topic, most):
        decoded = decoder.decode(messages)
        same = (decoded.changes.keys.high == wanted.high[0]) & (decoded.changes.keys.low == wanted.low[0])
        for at in np.flatnonzero(same & (decoded.changes.op != Op.TRUNCATE)).tolist():
            place = int(decoded.at[at])
            yield FoundChange(
                int(messages.partition[place]),
                int(messages.offset[place]),
                int(decoded.changes.tx_id[at]),
                Op(int(decoded.changes.op[at])),
                _read_row(decoded.changes, at, table),
            )


def _read_tail(reader: Reader, topic: str, most: int) -> Iterator[Messages]:
    first, ends = reader.beginning([topic])[topic], reader.end([topic])[topic]
    for partition, end in ends.items():
        yield from reader.read_messages(topic, partition, max(first.get(partition, 0), end - most), end)


def _read_row(changes: Changes, at: int, table: Table) -> Row | None:
    if changes.op[at] == Op.DELETE:
        return None
    [document] = documents(changes.rows.slice(at, 1), table).to_pylist()
    row: Row = json.loads(document)
    return {name: value for name, value in row.items() if name not in changes.unsent or not changes.unsent[name][at]}


def _find_end(reader: Reader, topic: str, tx_id: int, most: int) -> TransactionEnd | None:
    first, end = reader.beginning([topic])[topic].get(0, 0), reader.end([topic])[topic].get(0, 0)
    ends = read_ends_between(reader, topic, max(first, end - 2 * most), end)
    places = np.flatnonzero(ends.tx_id == tx_id)
    return ends.where(ends.tx_id == tx_id).last if len(places) else None


def find_in_latest(pipeline: Pipeline, place: str, table: Table, document: str, most: int) -> PlaceSighting:
    """The newest record of the key among the newest `most` of each partition of the table's compacted topic."""
    topic, wanted, newest = latest_topic(pipeline.settings.log.prefix, table.name), document.encode(), None
    with pipeline.open_log() as reader:
        first, ends = reader.beginning([topic])[topic], reader.end([topic])[topic]
        for partition, end in ends.items():
            for record in reader.read(topic, partition, max(first.get(partition, 0), end - most), end):
                newest = record if record.key == wanted else newest
    position = pipeline.fed[place].position()
    lsn = position.lsn if position else None
    if newest is None:
        note = f"no record of its key among the newest {format_count(most, 'record')} of each partition"
        return PlaceSighting(
            place, None if any(end - first.get(p, 0) > most for p, end in ends.items()) else False, lsn, note=note
        )
    where = f"{topic}/{newest.partition}/{newest.offset}"
    row = json.loads(newest.value) if newest.value else None
    return PlaceSighting(place, row is not None, lsn, note=where if row else f"{where}, a tombstone", row=row)
