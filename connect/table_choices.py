"""The user's choices for tables: keys and column types that differ from the catalog."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from cdc.core.table import TableName


class ChosenType(StrEnum):
    """The type that a column is followed as, if no follower holds all values of its own type."""

    TEXT = "text"
    DOUBLE = "double"


@dataclass(frozen=True, slots=True)
class Choices:
    """Chosen keys of tables without one, and chosen column types, by table."""

    keys: Mapping[TableName, tuple[str, ...]] = field(default_factory=dict)
    types: Mapping[TableName, Mapping[str, ChosenType]] = field(default_factory=dict)

    def key(self, table: TableName) -> Sequence[str]:
        """The chosen key of a table; empty if its own is used."""
        return self.keys.get(table, ())

    def types_of(self, table: TableName) -> Mapping[str, ChosenType]:
        """The chosen types of a table's columns."""
        return self.types.get(table, {})

    @property
    def texts(self) -> Mapping[TableName, Sequence[str]]:
        """The columns that are followed as text, by table."""
        texts = {name: [c for c, chosen in of.items() if chosen is ChosenType.TEXT] for name, of in self.types.items()}
        return {name: columns for name, columns in texts.items() if columns}


NO_CHOICES: Final = Choices()
