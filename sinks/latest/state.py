"""The state of a latest log: records of its positions topic, of which the newest of each key counts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from cdc.core.errors import CopyLostError, PreconditionError, TableStoppedError
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName
from cdc.log.clients.reader import Record
from cdc.sinks.owner import Owner

POSITION_KEY = b"position"


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A table of the follower; without a bookmark its copy is not finished.

    `stop`: the reason why it is stopped. `has_topic`: we created its topic; if false, a topic of that name is not ours.
    """

    table: Table
    bookmark: Bookmark | None = None
    stop: TableStoppedError | None = None
    has_topic: bool = True

    def as_json(self) -> dict[str, Any]:
        bookmark = self.bookmark.as_json() if self.bookmark else None
        stop = self.stop.as_json() if self.stop else None
        return {"table": self.table.as_json(), "bookmark": bookmark, "stop": stop, "has_topic": self.has_topic}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        bookmark = Bookmark.from_json(value["bookmark"]) if value["bookmark"] else None
        stop = TableStoppedError.from_json(value["stop"]) if value["stop"] else None
        return cls(Table.from_json(value["table"]), bookmark, stop, value["has_topic"])


@dataclass(frozen=True, slots=True)
class LatestState:
    """The position, and the registered tables."""

    position: Position | None = None
    tables: Mapping[TableName, TableRecord] = field(default_factory=dict)

    @property
    def stops(self) -> dict[TableName, TableStoppedError]:
        """The stopped tables, each with the reason."""
        return {name: record.stop for name, record in self.tables.items() if record.stop}

    def has_topic(self, name: TableName) -> bool:
        """Has this table a topic of ours?"""
        return name in self.tables and self.tables[name].has_topic

    def at(self, position: Position | None) -> "LatestState":
        return replace(self, position=position)

    def having(self, registration: TableRecord) -> "LatestState":
        return replace(self, tables={**self.tables, registration.table.name: registration})


def missing_copy_error(name: TableName, topic: str) -> CopyLostError:
    return CopyLostError(
        f"{name} has no copy in the topic {topic}", "`cdc follow` copies it again from the lake by itself"
    )


def to_stop_error(name: TableName, refused: PreconditionError) -> TableStoppedError:
    what = refused.what if refused.what.startswith(str(name)) else f"{name}: {refused.what}"
    return TableStoppedError(what, refused.remedy)


def position_record(owner: Owner, position: Position | None) -> tuple[bytes, bytes]:
    """Make the record of a position, or of none."""
    return POSITION_KEY, _pack(owner, {"position": position.as_json() if position else None})


def registration_record(owner: Owner, registration: TableRecord) -> tuple[bytes, bytes]:
    name = registration.table.name
    # JSON: a name may have any character, a slash or a dot too
    return f"table/{json.dumps([name.schema, name.table])}".encode(), _pack(owner, registration.as_json())


def after(owner: Owner, state: LatestState, record: Record) -> LatestState:
    """The state with one more record of the topic; raises PreconditionError for another follower's record."""
    value = json.loads(record.value or b"{}")
    # the topic's name has the log's prefix, but not the follower: two pipelines may share it by mistake
    if {name: value.get(name) for name in owner.as_json()} != owner.as_json():
        raise PreconditionError(
            f"topic {record.topic} is another follower's: {value.get('pipeline')}/{value.get('follower')}",
            "choose another log.prefix",
        )
    if record.key == POSITION_KEY:
        return state.at(Position.from_json(value["position"]) if value["position"] else None)
    return state.having(TableRecord.from_json(value))


def _pack(owner: Owner, value: Mapping[str, Any]) -> bytes:
    return json.dumps({**owner.as_json(), **value}).encode()
