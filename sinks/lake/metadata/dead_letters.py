"""The dead letters: messages that are not applied, whole, with reason and place, in a Delta table of the lake's own.

A key of which one could not be read is held: all that came for it later lies here as well, behind it, until somebody
has it replayed or drops it. What belongs to a Delta table that was replaced by a new copy is void: the copy has it.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.netting.blocked_keys import BlockedKeys
from cdc.columns.netting.changes import RefusedMessage
from cdc.core.refusal import Refusal
from cdc.core.table import TableName
from sinks.lake.layout import Lake
from sinks.lake.metadata.table import OwnTable

FOLDER: Final = "dead_letters"
MOST: Final = 10_000
"""So many messages of a batch and a table are held; with more of them, the table is stopped."""
SCHEMA = pa.schema(
    [
        pa.field("table_id", pa.string()),
        pa.field("schema", pa.string()),
        pa.field("table", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("waits", pa.bool_()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("old_key", pa.binary()),
        pa.field("moves_on", pa.bool_()),
        pa.field("tx_id", pa.int64()),
        pa.field("total_order", pa.int64()),
        pa.field("rank", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that is not applied to a Delta table; `rank`: the offset of its transaction's END, -1 if unknown."""

    table_id: str
    table: TableName
    message: RefusedMessage
    rank: int

    @property
    def place(self) -> str:
        """`topic[partition]@offset`."""
        at = self.message.refusal
        return f"{at.topic}[{at.partition}]@{at.offset}"

    def as_row(self) -> dict[str, Any]:
        message, at = self.message, self.message.refusal
        place = {"topic": at.topic, "partition": at.partition, "offset": at.offset}
        told = {"reason": at.reason, "waits": at.waits, "tx_id": message.tx_id, "total_order": message.total_order}
        held = {"key": message.key, "value": message.value, "old_key": message.old_key, "moves_on": message.moves_on}
        told["rank"] = self.rank
        named = {"table_id": self.table_id, "schema": self.table.schema, "table": self.table.table}
        return {**named, **place, **told, **held}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        refusal = Refusal(row["topic"], row["partition"], row["offset"], row["reason"], row["waits"])
        fields = ("key", "value", "old_key", "moves_on", "tx_id", "total_order")
        message = RefusedMessage(refusal, *(row[field] for field in fields))
        return cls(row["table_id"], TableName(row["schema"], row["table"]), message, row["rank"])


class _Kept(NamedTuple):
    """What is remembered of a letter: its key, and where in the key's partition it lies."""

    key: bytes | None
    offset: int

    @classmethod
    def of(cls, letter: DeadLetter) -> Self:
        return cls(letter.message.key, letter.message.refusal.offset)


class DeadLetters:
    """The lake's dead letters; which keys they hold is remembered by who writes them."""

    def __init__(self, lake: Lake) -> None:
        self._table = OwnTable(lake.own_table(FOLDER), FOLDER, SCHEMA)
        self._lock = threading.Lock()
        self._places: dict[str, dict[str, _Kept]] | None = None

    def add(self, letters: Sequence[DeadLetter]) -> None:
        """Store letters, each once however often its batch is tried."""
        with self._lock:
            known = self._known()
            fresh = [letter for letter in letters if letter.place not in known.get(letter.table_id, {})]
            if fresh:
                self._table.append([letter.as_row() for letter in fresh])
            for letter in fresh:
                known.setdefault(letter.table_id, {})[letter.place] = _Kept.of(letter)

    def held(self, table_id: str) -> BlockedKeys:
        """The keys of a Delta table whose changes wait, from their first letter on."""
        since: dict[bytes, int] = {}
        with self._lock:
            for key, offset in self._known().get(table_id, {}).values():
                if key is not None:
                    since[key] = min(offset, since.get(key, offset))
        return since

    def count(self, table_id: str) -> int:
        """How many letters a Delta table has."""
        with self._lock:
            return len(self._known().get(table_id, {}))

    def all(self) -> list[DeadLetter]:
        """All of them, each key's in the order of the log."""
        rows = self._table.rows().sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
        return [DeadLetter.from_row(row) for row in rows.to_pylist()]

    def remove(self, letters: Collection[DeadLetter]) -> None:
        """Forget letters: they were replayed, or dropped."""
        gone = {(letter.table_id, letter.place) for letter in letters}
        if gone:
            self._table.replace([each.as_row() for each in self.all() if (each.table_id, each.place) not in gone])
        with self._lock:
            self._places = None

    def maintain(self, past_hours: float, table_ids: Callable[[], Collection[str] | None]) -> None:
        """Put the files together when there are many, without the letters of other Delta tables than these, where they
        are known."""
        # most lakes have none, and nothing of them is asked every few seconds
        if self._places:
            ids = table_ids()
            self._table.maintain(past_hours, None if ids is None else pc.field("table_id").isin(list(ids)))

    def _known(self) -> "dict[str, dict[str, _Kept]]":
        if self._places is None:
            self._places = {}
            for letter in self.all():
                self._places.setdefault(letter.table_id, {})[letter.place] = _Kept.of(letter)
        return self._places
