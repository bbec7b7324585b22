"""The state of a search follower: one document in its positions index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opensearchpy import OpenSearch
from opensearchpy.exceptions import ConflictError

from cdc.core.errors import RefusedError, TableStoppedError
from cdc.core.position import Position
from cdc.core.table import TableName
from cdc.sinks.bulkheads import Stops
from cdc.sinks.opensearch.layout import positions_index
from cdc.sinks.owner import Owner


@dataclass(frozen=True, slots=True)
class SearchState:
    """The position, the stopped tables, and the document's version.

    `begun`: the position of a batch of which rows may be written, though not all. The version is above the position's
    own after `forget_position`.
    """

    position: Position | None = None
    stops: Stops = field(default_factory=dict)
    version: int = 0
    begun: Position | None = None


@dataclass(frozen=True, slots=True)
class StateDocument:
    """The document with the state of one follower, or of a generation of its indexes."""

    index: str
    owner: Owner
    generation: str = ""

    @classmethod
    def of(cls, prefix: str, owner: Owner, generation: str = "") -> "StateDocument":
        return cls(positions_index(prefix), owner, generation)

    @property
    def _id(self) -> str:
        return f"{self.owner.pipeline}/{self.owner.follower}{self.generation}"

    def read(self, client: OpenSearch) -> SearchState:
        """Read the state; an empty one if none is stored."""
        found = client.get(index=self.index, id=self._id, params={"ignore": 404})
        if not found.get("found"):
            return SearchState()
        source = found["_source"]
        position, begun = (Position.from_json(at) if (at := source[name]) else None for name in ("position", "begun"))
        return SearchState(position, _from_json(source["stopped"]), int(found["_version"]), begun)

    def store(self, client: OpenSearch, state: SearchState) -> None:
        """Store the state; raises RefusedError when another writer has stored a later one."""
        # gte: a repeated batch stores its position again
        params = {"version": state.version, "version_type": "external_gte"}
        reached = {"position": state.position, "begun": state.begun}
        positions = {name: at.as_json() if at else None for name, at in reached.items()}
        body = {**self.owner.as_json(), **positions, "stopped": _as_json(state.stops)}
        try:
            client.index(index=self.index, id=self._id, body=body, params=params)
        except ConflictError as error:
            raise RefusedError(
                f"another `cdc follow` has moved the position in {self.index}", "let only one run"
            ) from error


def _as_json(stops: Stops) -> dict[str, Sequence[Any]]:
    return {"tables": [{"schema": name.schema, "table": name.table, **stop.as_json()} for name, stop in stops.items()]}


def _from_json(value: Mapping[str, Any]) -> dict[TableName, TableStoppedError]:
    return {TableName(each["schema"], each["table"]): TableStoppedError.from_json(each) for each in value["tables"]}
