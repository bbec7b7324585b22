"""The records of the follower's topics: events, the matches that there are, and the position. Pure."""

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from cdc.core.errors import PreconditionError
from cdc.core.position import Position, format_lsn
from cdc.core.table import TableName
from cdc.sinks.owner import Owner
from cdc.sinks.percolator.matches import Change, Pair

POSITION_KEY = b"position"
MATCH, END = "match", "end of match"
_DECODER: Final = msgspec.json.Decoder(tuple[tuple[str, str], str, str])


@dataclass(frozen=True, slots=True)
class Reached:
    """How far the follower is: its position, and the tables whose matches are those of that position.

    All others have to be matched as a whole.
    """

    position: Position | None = None
    current: frozenset[TableName] = frozenset()

    def without(self, tables: Collection[TableName]) -> "Reached":
        return replace(self, current=self.current - frozenset(tables))


@dataclass(frozen=True, slots=True)
class Moment:
    """The position and commit time of a cut, as the events name them."""

    position: Position
    committed_ms: int | None

    def as_json(self) -> dict[str, Any]:
        at = None if self.committed_ms is None else datetime.fromtimestamp(self.committed_ms / 1000, UTC)
        told = at.isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else None
        return {"lsn": format_lsn(self.position.lsn), "committed_at": told}


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to write to one of the topics; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


def event(change: Change, moment: Moment) -> NewRecord:
    """The event that a match begins or ends; events of the same query and row have the same key."""
    kind = MATCH if change.begins else END
    return NewRecord(_key(change.pair), _dump({"kind": kind, **_pair(change.pair), **moment.as_json()}))


def presence(change: Change, moment: Moment) -> NewRecord:
    """The record of a match that is there, with the moment since when; a tombstone at its end."""
    return NewRecord(_key(change.pair), _dump({**_pair(change.pair), **moment.as_json()}) if change.begins else None)


def to_pair(key: bytes) -> Pair:
    """Read the key of a record of events or matches."""
    table, query, row = _DECODER.decode(key)
    return Pair(_name(*table), query, row)


@lru_cache(maxsize=1024)
def _name(schema: str, table: str) -> TableName:
    # one object for all of a table's records: it is found without a comparison
    return TableName(schema, table)


def position_record(owner: Owner, reached: Reached) -> NewRecord:
    position = reached.position.as_json() if reached.position else None
    current = sorted([name.schema, name.table] for name in reached.current)
    return NewRecord(POSITION_KEY, _dump({**owner.as_json(), "position": position, "current": current}))


def to_reached(value: bytes, owner: Owner, topic: str) -> Reached:
    """Read the record of a position; raises PreconditionError when it is another follower's."""
    found = json.loads(value)
    if {name: found.get(name) for name in owner.as_json()} != owner.as_json():
        raise PreconditionError(
            f"topic {topic} is another follower's: {found.get('pipeline')}/{found.get('follower')}",
            "choose another log.prefix, or another name for this follower",
        )
    position = Position.from_json(found["position"]) if found["position"] else None
    return Reached(position, frozenset(TableName(*name) for name in found["current"]))


def _key(pair: Pair) -> bytes:
    # as texts: JSON written anew could write a number in another way, and be another key
    return _dump([[pair.table.schema, pair.table.table], pair.query, pair.row])


def _pair(pair: Pair) -> dict[str, Any]:
    return {"query": json.loads(pair.query), "table": str(pair.table), "row": json.loads(pair.row)}


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
