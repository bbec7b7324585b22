"""A view as the user writes it, and as the lake notes it beside its rows."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from cdc.core.table import TableName

VIEW_PROPERTY: Final = "cdc.view"
"""The property of a view's Delta table that holds its definition."""


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view's name, its statement, and the columns of its result that tell its rows apart.

    `final_after`: how long after its end a window closes, as a duration of Spark; empty if it never does.
    """

    name: TableName
    sql: str
    key: tuple[str, ...]
    final_after: str = ""

    @property
    def id(self) -> str:
        """Tells this definition from any other of the name."""
        return f"{self.name} {hashlib.sha256(self.as_properties()[VIEW_PROPERTY].encode()).hexdigest()[:16]}"

    def as_properties(self) -> Mapping[str, str]:
        """The definition as properties of its Delta table."""
        final = {"final_after": self.final_after} if self.final_after else {}
        return {VIEW_PROPERTY: json.dumps({"sql": self.sql, "key": list(self.key), **final})}

    def is_noted_in(self, properties: Mapping[str, str]) -> bool:
        """Whether these are the properties of a table that was filled by this definition."""
        return properties.get(VIEW_PROPERTY) == self.as_properties()[VIEW_PROPERTY]

    @classmethod
    def of(cls, name: str, sql: str, key: Sequence[str], final_after: str = "") -> Self:
        return cls(TableName.parse(name), sql, tuple(key), final_after)
