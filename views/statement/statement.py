"""A view's statement as its analysis reads it."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from cdc.core.table import Column, Table, TableName
from views.plan import TableUse


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement: common table expressions are inlined, and every use of a table has an alias of its own."""

    tree: exp.Query
    tables: Mapping[TableName, Table]
    uses: Mapping[int, TableUse]
    """By the id of the node in the tree."""

    def column(self, alias: str, name: str) -> Column:
        """A column of the table that is used under this alias."""
        use = next(use for use in self.uses.values() if use.alias == alias)
        return next(column for column in self.tables[use.table].columns if column.name == name)
