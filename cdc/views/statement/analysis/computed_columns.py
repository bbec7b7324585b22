"""Expressions of one table's columns that a statement groups or joins by: `date_trunc('minute', o.placed_at)`.

Each counts as a further column of its table: it can be indexed, and lead to keys, if an engine computes it as Spark
does.
"""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from cdc.core.table import Column, Table, TableName
from cdc.views.plan import DerivedColumn
from cdc.views.statement.entrance.functions import is_aggregate
from cdc.views.statement.statement import Statement
from cdc.views.statement.tree.nodes import Nested

PREFIX: Final = "="
"""Computed columns have names that begin with it. A table may have such a column too, and is then left alone."""
_OTHERS_ROWS: Final = (exp.Query, Nested, exp.Window, exp.Lambda, exp.Star, exp.UDTF)
"""What an expression may not contain: it would be of more than one row."""
ResolveColumn = Callable[[exp.Column], frozenset[tuple[str, str]]]
"""The columns of tables that a column's values come from, as aliases of uses and names."""
ComputeIn = Callable[[Table, str, exp.Expr], DerivedColumn | None]
"""Writes an expression over a table's columns, under a name, for an engine; None if that does not compute it."""


def compute_nothing(_: Table, __: str, ___: exp.Expr) -> None:
    """Of an analysis that asks no engine: computed columns come from nowhere."""


class ComputedColumns:
    """The computed columns of one statement, found so far."""

    def __init__(self, statement: Statement, compute: ComputeIn) -> None:
        self.found: dict[TableName, dict[str, DerivedColumn]] = {}
        self._statement = statement
        self._compute = compute
        # the expression of each, over columns of its table
        self._values: dict[str, exp.Expr] = {}

    def find(self, value: exp.Expr, resolve: ResolveColumn) -> tuple[str, str] | None:
        """An expression as a column of a use: its alias, and the computed column's name; None if it is not one."""
        columns = [*value.find_all(exp.Column)]
        if not columns or any(isinstance(node, _OTHERS_ROWS) or is_aggregate(node) for node in value.walk()):
            return None
        sources = [resolve(column) for column in columns]
        # of a UNION's branches, each would be an expression of its own
        if any(len(found) != 1 for found in sources):
            return None
        single = [next(iter(found)) for found in sources]
        if len({alias for alias, _ in single}) > 1:
            return None
        alias = single[0][0]
        name = self._add(alias, self._rename(value, [column for _, column in single]))
        return (alias, name) if name else None

    def column(self, alias: str, name: str) -> Column:
        """A column of the table that is used under this alias, computed or not."""
        if name.startswith(PREFIX):
            computed = self.found.get(self._statement.table(alias).name, {})
            if name in computed:
                return computed[name].column
        return self._statement.column(alias, name)

    def _add(self, alias: str, value: exp.Expr) -> str | None:
        table = self._statement.table(alias)
        name = f"{PREFIX}{value.sql(dialect='spark', normalize_functions=False)}"
        known = self.found.setdefault(table.name, {})
        if name not in known:
            # a table's own column of that name would be mistaken for it
            made = self._compute(table, name, value) if name not in table.column_names else None
            if made is None:
                return None
            known[name] = made
            self._values[name] = value
        return name

    def _rename(self, value: exp.Expr, names: list[str]) -> exp.Expr:
        """The expression over these columns of its table, in their order; a computed one is written out."""
        renamed = value.copy()
        for name, own in zip(names, [*renamed.find_all(exp.Column)], strict=True):
            own.replace(exp.paren(self._values[name]) if name in self._values else exp.column(name))
        return renamed
