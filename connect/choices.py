"""What the user has chosen of tables beside what the catalog says of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from cdc.core.table import TableName


class ChosenType(StrEnum):
    """What a column is followed as, where its own type has values that no follower holds."""

    TEXT = "text"
    DOUBLE = "double"


@dataclass(frozen=True, slots=True)
class Choices:
    """Keys of tables that have none, and types of columns, by table."""

    keys: Mapping[TableName, tuple[str, ...]] = field(default_factory=dict)
    types: Mapping[TableName, Mapping[str, ChosenType]] = field(default_factory=dict)

    def key(self, table: TableName) -> Sequence[str]:
        """The key that is chosen for a table; none where its own holds."""
        return self.keys.get(table, ())

    def types_of(self, table: TableName) -> Mapping[str, ChosenType]:
        """The types that are chosen for columns of a table."""
        return self.types.get(table, {})

    @property
    def texts(self) -> Mapping[TableName, Sequence[str]]:
        """The columns that are followed as text, by table."""
        each = {name: [c for c, chosen in of.items() if chosen is ChosenType.TEXT] for name, of in self.types.items()}
        return {name: columns for name, columns in each.items() if columns}


NO_CHOICES: Final = Choices()
