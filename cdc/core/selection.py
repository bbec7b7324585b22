"""Which tables of a source are wanted: by name, by patterns, and but for some."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from cdc.core.table import TableName

ANY: Final = "*"
"""Stands for any characters in the name of a schema or a table."""
BUT: Final = "!"
"""Begins an entry whose tables are not wanted, whatever else names them."""


@dataclass(frozen=True)
class Selection:
    """Entries such as `sales.orders`, `sales.*` and `!sales.old_*`; one without a schema is of `public`."""

    entries: tuple[str, ...]

    @classmethod
    def of(cls, entries: Iterable[str]) -> Self:
        return cls(tuple(entries))

    @cached_property
    def names(self) -> tuple[TableName, ...]:
        """The tables that are named one by one, in the order of the entries."""
        return tuple(TableName.parse(entry) for entry in self.entries if not (is_pattern(entry) or is_exclusion(entry)))

    @property
    def has_patterns(self) -> bool:
        """May it name tables that nobody has thought of yet?"""
        return any(is_pattern(entry) and not is_exclusion(entry) for entry in self.entries)

    def __contains__(self, table: TableName) -> bool:
        return table in self.names or (_any(self._wanted, table) and not _any(self._unwanted, table))

    def found_in(self, tables: Iterable[TableName]) -> tuple[TableName, ...]:
        """What is named of these tables: what is named one by one, there or not, and then the others in order."""
        others = {table for table in tables if table in self} - set(self.names)
        return (*self.names, *sorted(others))

    @cached_property
    def _wanted(self) -> Sequence["_Pattern"]:
        return [_Pattern.of(entry) for entry in self.entries if is_pattern(entry) and not is_exclusion(entry)]

    @cached_property
    def _unwanted(self) -> Sequence["_Pattern"]:
        return [_Pattern.of(entry.removeprefix(BUT)) for entry in self.entries if is_exclusion(entry)]


def is_pattern(entry: str) -> bool:
    return ANY in entry


def is_exclusion(entry: str) -> bool:
    return entry.startswith(BUT)


@dataclass(frozen=True, slots=True)
class _Pattern:
    schema: re.Pattern[str]
    table: re.Pattern[str]

    @classmethod
    def of(cls, entry: str) -> Self:
        name = TableName.parse(entry)
        return cls(_compiled(name.schema), _compiled(name.table))

    def names(self, table: TableName) -> bool:
        return bool(self.schema.fullmatch(table.schema) and self.table.fullmatch(table.table))


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split(ANY))), re.DOTALL)


def _any(patterns: Iterable[_Pattern], table: TableName) -> bool:
    return any(pattern.names(table) for pattern in patterns)
