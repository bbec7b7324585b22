"""The model's changes as the messages that Debezium writes, by the partitions that Kafka would put them in."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from cdc.columns.netting.changes import Messages
from cdc.core.table import Table
from tests.support.model import UNCHANGED, Change, Delete, Insert, Key, SentRow, Truncate, Update

PLACEHOLDER = "__not sent__"
LETTERS = {Insert: "c", Update: "u", Delete: "d", Truncate: "t"}


def topic(table: Table) -> str:
    return f"p.{table.name}"


def messages(table: Table, changes: Sequence[Change], partitions: int) -> list[Messages]:
    """Messages of one topic, partition by partition; a transaction's id is its rank."""
    rows: list[list[dict[str, object]]] = [[] for _ in range(partitions)]
    for change in changes:
        partition = 0 if isinstance(change, Truncate) else hash(change.key) % partitions
        rows[partition].append(_message(table, change, partition, 2 * len(rows[partition])))
    return [as_messages(own) for own in rows]


def as_messages(rows: Sequence[Mapping[str, Any]]) -> Messages:
    """Rows of the fields of `Messages` as its columns; all are of one topic."""
    columns: dict[str, Any] = {field.name: [row[field.name] for row in rows] for field in fields(Messages)}
    columns |= {name: np.array(columns[name], np.int64) for name in ("partition", "offset")}
    columns |= {"topic": next(iter(columns["topic"]), ""), "moves_on": np.array(columns["moves_on"], np.bool_)}
    return Messages(**columns)


def _message(table: Table, change: Change, partition: int, offset: int) -> dict[str, object]:
    envelope = {
        "before": None,
        "after": _sent(change.row) if isinstance(change, Insert | Update) else None,
        "source": {"connector": "postgresql", "txId": change.place.rank, "lsn": 1},
        "transaction": {"id": f"{change.place.rank}:1", "data_collection_order": change.place.total_order},
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


def as_they_come(partition: Messages, rows: int) -> list[Messages]:
    """A partition's messages, so many at a time."""
    return [partition.slice(at, at + rows) for at in range(0, len(partition), rows)]
