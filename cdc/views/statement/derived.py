"""Expressions of one table's columns that a statement groups or joins by: `date_trunc('minute', o.placed_at)`.

Each counts as a further column of its table: it can be indexed, and lead to keys, if DuckDB computes it as Spark does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from cdc.columns.types.spark_types import to_column
from cdc.core.table import Column, TableName
from cdc.views.plan import DerivedColumn, TableUse
from cdc.views.statement.dialect.statements import DuckStatement, write_statement
from cdc.views.statement.entrance.functions import is_aggregate
from cdc.views.statement.statement import Statement

PREFIX: Final = "="
"""Derived columns have names that begin with it. A table may have such a column too, and is then left alone."""
_OTHERS_ROWS: Final = (exp.Query, exp.Window, exp.Lambda, exp.Star, exp.UDTF)
"""What an expression may not contain: it would be of more than one row."""
ResolveColumn = Callable[[exp.Column], frozenset[tuple[str, str]]]
"""The columns of tables that a column's values come from, as aliases of uses and names."""


@dataclass(slots=True)
class DerivedColumns:
    """The derived columns of one statement, found so far."""

    statement: Statement
    found: dict[TableName, dict[str, DerivedColumn]]
    values: dict[str, exp.Expr] = field(default_factory=dict)
    """The expression of each, over columns of its table."""

    def find(self, value: exp.Expr, resolve: ResolveColumn) -> tuple[str, str] | None:
        """An expression as a column of a use: its alias, and the derived column's name; None if it is not one."""
        columns = [*value.find_all(exp.Column)]
        if not columns or any(isinstance(node, _OTHERS_ROWS) or is_aggregate(node) for node in value.walk()):
            return None
        sources = {id(column): resolve(column) for column in columns}
        if any(len(found) != 1 for found in sources.values()):
            return None
        single = {at: next(iter(found)) for at, found in sources.items()}
        if len({alias for alias, _ in single.values()}) > 1:
            return None
        alias = next(iter(single.values()))[0]
        name = self._add(alias, self._rename(value, {at: column for at, (_, column) in single.items()}))
        return (alias, name) if name else None

    def column(self, alias: str, name: str) -> Column:
        """A column of the table that is used under this alias, derived or not."""
        if name.startswith(PREFIX):
            table = next(use.table for use in self.statement.uses.values() if use.alias == alias)
            if name in self.found.get(table, {}):
                return self.found[table][name].column
        return self.statement.column(alias, name)

    def _add(self, alias: str, value: exp.Expr) -> str | None:
        table = next(use.table for use in self.statement.uses.values() if use.alias == alias)
        name = f"{PREFIX}{value.sql(dialect='spark', normalize_functions=False)}"
        known = self.found.setdefault(table, {})
        if name not in known:
            derived = self._derive(table, name, value)
            if derived is None:
                return None
            known[name] = derived
            self.values[name] = value
        return name

    def _rename(self, value: exp.Expr, names: dict[int, str]) -> exp.Expr:
        """The expression over these columns of its table; a derived one is written out."""
        renamed = value.copy()
        for column, own in zip([*value.find_all(exp.Column)], [*renamed.find_all(exp.Column)], strict=True):
            name = names[id(column)]
            own.replace(exp.paren(self.values[name]) if name in self.values else exp.column(name))
        return renamed

    def _derive(self, table: TableName, name: str, value: exp.Expr) -> DerivedColumn | None:
        written = write_statement(self._select(table, value), {table: TABLE})
        if not isinstance(written, DuckStatement):
            return None
        column = to_column(name, written.types[0])
        own = {each.name for each in value.find_all(exp.Column)}
        inputs = tuple(each for each in self.statement.tables[table].column_names if each in own)
        # a table's own column of that name would be mistaken for it
        is_free = name not in self.statement.tables[table].column_names
        return DerivedColumn(column, inputs, written.sql) if column and is_free else None

    def _select(self, table: TableName, value: exp.Expr) -> Statement:
        """`SELECT value FROM table`."""
        source = exp.table_(table.table, db=table.schema, alias=TABLE)
        own = value.copy()
        for column in own.find_all(exp.Column):
            column.set("table", exp.to_identifier(TABLE))
        tree = exp.Select(expressions=[exp.alias_(own, "v")]).from_(source)
        node = next(tree.find_all(exp.Table))
        return replace(self.statement, tree=tree, uses={id(node): TableUse(TABLE, table)}, references=(), qualifiers=())


TABLE: Final = "t"
"""The name of the rows from which a derived column is computed."""
