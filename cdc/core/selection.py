"""The selection of tables: by name, by pattern, and by exclusion."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from cdc.core.table import TableName

ANY: Final = "*"
"""Matches any characters in the name of a schema or a table."""
BUT: Final = "!"
"""Begins an exclusion: its tables are left out, even if a pattern matches them."""


@dataclass(frozen=True)
class Selection:
    """Entries such as `sales.orders`, `sales.*` and `!sales.old_*`; the default schema is `public`."""

    # no slots: cached_property keeps its values in __dict__
    entries: tuple[str, ...]

    @classmethod
    def of(cls, entries: Iterable[str]) -> Self:
        return cls(tuple(entries))

    @cached_property
    def names(self) -> tuple[TableName, ...]:
        """The tables named without a pattern, in the order of the entries."""
        return tuple(TableName.parse(entry) for entry in self.entries if not (is_pattern(entry) or is_exclusion(entry)))

    @property
    def has_patterns(self) -> bool:
        """Can it match tables that do not exist yet?"""
        return any(is_pattern(entry) and not is_exclusion(entry) for entry in self.entries)

    def __contains__(self, table: TableName) -> bool:
        # a table named without a pattern wins over exclusions
        return table in self.names or (_any(self._inclusions, table) and not _any(self._exclusions, table))

    def leaves_out(self, table: TableName) -> bool:
        """Does an exclusion name this table, whether it would be selected otherwise or not?"""
        return table not in self.names and _any(self._exclusions, table)

    def select_from(self, tables: Iterable[TableName]) -> tuple[TableName, ...]:
        """Return all tables named without a pattern, whether they exist or not, then the matching `tables` in order."""
        others = {table for table in tables if table in self} - set(self.names)
        # a set has another order in every process, and the user reads this one
        return (*self.names, *sorted(others))

    @cached_property
    def _inclusions(self) -> Sequence["_Pattern"]:
        return [_Pattern.of(entry) for entry in self.entries if is_pattern(entry) and not is_exclusion(entry)]

    @cached_property
    def _exclusions(self) -> Sequence["_Pattern"]:
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
        return cls(_to_regex(name.schema), _to_regex(name.table))

    def names(self, table: TableName) -> bool:
        return bool(self.schema.fullmatch(table.schema) and self.table.fullmatch(table.table))


def _to_regex(text: str) -> re.Pattern[str]:
    # DOTALL: a quoted identifier may have a line break
    return re.compile(".*".join(map(re.escape, text.split(ANY))), re.DOTALL)


def _any(patterns: Iterable[_Pattern], table: TableName) -> bool:
    return any(pattern.names(table) for pattern in patterns)
