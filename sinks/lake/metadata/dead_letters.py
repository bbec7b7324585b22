"""Dead letters: messages that could not be applied, stored whole with reason and location.

An unreadable message blocks its key: later messages for the key are stored here, too, until somebody replays or drops
them. A new copy of the table voids its letters, since the copy has their effect.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.netting.blocked_keys import BlockedKeys
from cdc.columns.netting.changes import RefusedMessage
from cdc.core.refusal import Refusal
from cdc.core.table import TableName
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.table import MetadataTable

FOLDER: Final = "dead_letters"
MAX_MESSAGES: Final = 10_000
"""Messages of a table that can be set aside; beyond that, the table is stopped, and its next copy voids them."""
SCHEMA = pa.schema(
    {
        "table_id": pa.string(),  # id of the Delta table
        "schema": pa.string(),
        "table": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "reason": pa.string(),  # why it cannot be read
        "waits": pa.bool_(),  # readable, but behind an unreadable message of its key
        "key": pa.binary(),  # the message's key; null without one
        "value": pa.binary(),
        "old_key": pa.binary(),  # the row's former key, when it changed
        "moves_on": pa.bool_(),  # the row goes on under another key
        "tx_id": pa.int64(),  # null when the message does not say
        "total_order": pa.int64(),  # the message's `number`; of older letters that in the whole transaction
        "rank": pa.int64(),  # offset of the transaction's END; -1 if unknown
    }
)
"""One row per message; its key: table_id, topic, partition, offset."""
_OF_REFUSAL = ("topic", "partition", "offset", "reason", "waits")
_OF_MESSAGE = ("key", "value", "old_key", "moves_on", "tx_id")
_NUMBER = "total_order"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that is not applied to a Delta table; `rank`: the offset of its transaction's END, -1 if unknown."""

    table_id: str
    table: TableName
    message: RefusedMessage
    rank: int

    @property
    def location(self) -> str:
        """`topic[partition]@offset`."""
        at = self.message.refusal
        return _locate(at.topic, at.partition, at.offset)

    def as_row(self) -> dict[str, Any]:
        refusal = {name: getattr(self.message.refusal, name) for name in _OF_REFUSAL}
        content = {name: getattr(self.message, name) for name in _OF_MESSAGE} | {_NUMBER: self.message.number}
        table = {"table_id": self.table_id, "schema": self.table.schema, "table": self.table.table}
        return {**table, **refusal, **content, "rank": self.rank}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        refusal = Refusal(*(row[name] for name in _OF_REFUSAL))
        message = RefusedMessage(refusal, *(row[name] for name in (*_OF_MESSAGE, _NUMBER)))
        return cls(row["table_id"], TableName(row["schema"], row["table"]), message, row["rank"])


def _locate(topic: str, partition: int, offset: int) -> str:
    return f"{topic}[{partition}]@{offset}"


_LetterKey = tuple[bytes | None, int]
"""The part of a letter that stays in memory: its key, and its offset in the key's partition."""
_KEPT: Final = ("table_id", "topic", "partition", "offset", "key")
"""The columns that this part and a letter's place are read from; the values may be large."""


def _key_of(letter: DeadLetter) -> _LetterKey:
    return letter.message.key, letter.message.refusal.offset


class DeadLetters:
    """The lake's dead letters. Its writer caches the blocked keys."""

    def __init__(self, lake: Lake) -> None:
        self._table = MetadataTable(lake.metadata_storage(FOLDER), FOLDER, SCHEMA)
        self._lock = threading.Lock()
        self._letters: dict[str, dict[str, _LetterKey]] | None = None

    def add(self, letters: Sequence[DeadLetter]) -> None:
        """Store letters, each one once, however often its batch is retried."""
        with self._lock:
            # a retried batch brings the same letters again
            known = self._load()
            fresh = [letter for letter in letters if letter.location not in known.get(letter.table_id, {})]
            if fresh:
                self._table.append([letter.as_row() for letter in fresh])
            for letter in fresh:
                known.setdefault(letter.table_id, {})[letter.location] = _key_of(letter)

    def blocked_keys(self, table_id: str) -> BlockedKeys:
        """The blocked keys of a Delta table, each with the offset of its first letter."""
        since: dict[bytes, int] = {}
        with self._lock:
            for key, offset in self._load().get(table_id, {}).values():
                if key is not None:
                    # all of a key's messages are in one partition, so offsets compare
                    since[key] = min(offset, since.get(key, offset))
        return since

    def count(self, table_id: str) -> int:
        """The number of a Delta table's letters."""
        with self._lock:
            return len(self._load().get(table_id, {}))

    def all(self) -> list[DeadLetter]:
        """All letters; each key's in log order."""
        rows = self._table.rows().sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
        return [DeadLetter.from_row(row) for row in rows.to_pylist()]

    def invalidate(self) -> None:
        """Read the letters anew on next use."""
        with self._lock:
            self._letters = None

    def remove(self, letters: Collection[DeadLetter]) -> None:
        """Delete letters that were replayed or dropped."""
        gone = {(letter.table_id, letter.location) for letter in letters}
        if gone:
            self._table.replace(
                [letter.as_row() for letter in self.all() if (letter.table_id, letter.location) not in gone]
            )
        self.invalidate()

    def maintain(self, past_hours: float, table_ids: Callable[[], Collection[str] | None]) -> None:
        """Compact when there are many files, and drop letters of other Delta tables than `table_ids`, unless that
        returns None."""
        known = self._letters
        # most lakes have none: skip the requests of every round
        if not known:
            return
        ids = table_ids()
        keep = None if ids is None else pc.field("table_id").isin(list(ids))
        if ids is not None and not known.keys() <= {*ids}:
            # of a table that was stopped for them, they are many
            self._table.compact(keep)
            self.invalidate()
        self._table.maintain(past_hours, keep)

    def _load(self) -> "dict[str, dict[str, _LetterKey]]":
        if self._letters is None:
            self._letters = {}
            for row in self._table.rows(columns=_KEPT).to_pylist():
                location = _locate(row["topic"], row["partition"], row["offset"])
                self._letters.setdefault(row["table_id"], {})[location] = row["key"], row["offset"]
        return self._letters
