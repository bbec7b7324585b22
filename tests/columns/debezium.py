"""The model's changes as the messages that Debezium writes, by the partitions that Kafka would put them in."""

import json
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from cdc.columns.changes import MESSAGES
from cdc.core.change import UNCHANGED, Change, Delete, Insert, Key, SentRow, Truncate, Update
from cdc.core.table import Table

PLACEHOLDER = "__not sent__"
LETTERS = {Insert: "c", Update: "u", Delete: "d", Truncate: "t"}


def topic(table: Table) -> str:
    return f"p.{table.name}"


def messages(table: Table, changes: Sequence[Change], partitions: int) -> list[pa.Table]:
    """Messages of one topic, a table of `MESSAGES` a partition; a transaction's id is its rank."""
    rows: list[list[dict[str, object]]] = [[] for _ in range(partitions)]
    for change in changes:
        partition = 0 if isinstance(change, Truncate) else hash(change.key) % partitions
        rows[partition].append(_message(table, change, partition, 2 * len(rows[partition])))
    return [pa.Table.from_pylist(own, MESSAGES) for own in rows]


def _message(table: Table, change: Change, partition: int, offset: int) -> dict[str, object]:
    envelope = {
        "before": None,
        "after": _sent(change.row) if isinstance(change, Insert | Update) else None,
        "source": {"connector": "postgresql", "txId": change.place.rank, "lsn": 1},
        "transaction": {"id": f"{change.place.rank}:1", "total_order": change.place.total_order},
        "op": LETTERS[type(change)],
        "ts_ms": 1,
    }
    former = change.moved_from if isinstance(change, Insert) else None
    return {
        "topic": topic(table),
        "partition": partition,
        "offset": offset,
        "key": None if isinstance(change, Truncate) else _key(table, change.key),
        "value": json.dumps(envelope).encode(),
        "old_key": None if former is None else _key(table, former),
        "moves_on": isinstance(change, Delete) and change.moved_to is not None,
    }


def _key(table: Table, key: Key) -> bytes:
    return json.dumps(dict(zip(table.key, key, strict=True))).encode()


def _sent(row: SentRow) -> Mapping[str, object]:
    return {name: PLACEHOLDER if value is UNCHANGED else value for name, value in row.items()}


def batches(parts: Iterable[pa.Table], rows: int) -> list[pa.RecordBatch]:
    """Partition by partition, as Spark hands them to a task."""
    return [batch for part in parts for batch in part.to_batches(max_chunksize=rows)]
