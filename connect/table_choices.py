"""The user's choices for tables: keys and column types that differ from the catalog."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from cdc.core.mask import MaskKind, Masks
from cdc.core.selection import ANY, Selection, is_pattern
from cdc.core.table import MAX_DECIMAL_DIGITS, TableName

_FORM: Final = re.compile(r"(text|double)|decimal\( *(\d{1,2}) *(?:, *(\d{1,2}) *)?\)")
CHOSEN_TYPES: Final = f"text, double, or 'decimal(p,s)' in quotes, with 0 ≤ s ≤ p ≤ {MAX_DECIMAL_DIGITS}"


class ChosenKind(StrEnum):
    TEXT = "text"
    DOUBLE = "double"
    DECIMAL = "decimal"


@dataclass(frozen=True, slots=True)
class ChosenType:
    """The type that a column is followed as, instead of its own: `text`, `double` or `decimal(p,s)`.

    `precision`, `scale`: of a decimal only.
    """

    kind: ChosenKind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"{self.kind}({self.precision},{self.scale})" if self.kind is ChosenKind.DECIMAL else str(self.kind)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a choice as in `source.column_types`; raises ValueError for another text."""
        found = _FORM.fullmatch(text.strip())
        if found and found[1]:
            return cls(ChosenKind(found[1]))
        precision, scale = (int(found[2]), int(found[3] or 0)) if found else (0, 0)
        if not 0 <= scale <= precision <= MAX_DECIMAL_DIGITS or not precision:
            raise ValueError(f"is not {CHOSEN_TYPES}")
        return cls(ChosenKind.DECIMAL, precision, scale)


@dataclass(frozen=True, slots=True)
class ColumnChoices:
    """The chosen types of one table's columns.

    `named`: of columns of this very table, each of which has to be one that can be followed so. `matched`: of columns
    of all tables of a pattern, where they are there and can be. `numerics`: of every other numeric that is text else.
    """

    named: Mapping[str, ChosenType] = field(default_factory=dict)
    matched: Mapping[str, ChosenType] = field(default_factory=dict)
    numerics: ChosenType | None = None

    def find(self, column: str) -> ChosenType | None:
        """The choice for a column that is named."""
        return self.named.get(column) or self.matched.get(column)


@dataclass(frozen=True, slots=True)
class Choices:
    """Chosen keys of tables without one, and chosen column types by table or pattern, in the file's order.

    `masks` of columns, and `wheres`, the conditions of the rows that are followed: by table.
    """

    keys: Mapping[TableName, tuple[str, ...]] = field(default_factory=dict)
    types: Mapping[str, Mapping[str, ChosenType]] = field(default_factory=dict)
    masks: Mapping[TableName, Masks] = field(default_factory=dict)
    wheres: Mapping[TableName, str] = field(default_factory=dict)

    def key(self, table: TableName) -> Sequence[str]:
        """The chosen key of a table; empty if its own is used."""
        return self.keys.get(table, ())

    def masks_of(self, table: TableName) -> Masks:
        """The masks of a table's columns."""
        return self.masks.get(table, {})

    def list_dropped(self, table: TableName) -> list[str]:
        """The columns of a table that followers do not hold."""
        return [column for column, mask in self.masks_of(table).items() if mask.kind is MaskKind.DROP]

    def types_of(self, table: TableName) -> ColumnChoices:
        """The chosen types of a table's columns. The table's own name wins over patterns, a later one over earlier."""
        own, patterns = self._of_table(table), self._of_patterns(table)
        named = {column: choice for of in own for column, choice in of.items() if column != ANY}
        matched = {column: choice for of in patterns for column, choice in of.items() if column != ANY}
        numerics = [of[ANY] for of in (*patterns, *own) if ANY in of]
        return ColumnChoices(named, matched, numerics[-1] if numerics else None)

    def list_texts(self, tables: Sequence[TableName]) -> dict[TableName, Sequence[str]]:
        """The columns of these tables that are followed as text."""
        choices = {table: self.types_of(table) for table in tables}
        texts = {
            table: [column for column in {**of.matched, **of.named} if of.find(column) == ChosenType(ChosenKind.TEXT)]
            for table, of in choices.items()
        }
        return {table: columns for table, columns in texts.items() if columns}

    def _of_table(self, table: TableName) -> list[Mapping[str, ChosenType]]:
        return [of for name, of in self.types.items() if not is_pattern(name) and TableName.parse(name) == table]

    def _of_patterns(self, table: TableName) -> list[Mapping[str, ChosenType]]:
        return [of for name, of in self.types.items() if is_pattern(name) and table in Selection.of([name])]


NO_CHOICES: Final = Choices()
