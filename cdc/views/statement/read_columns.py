"""Which columns of its tables a statement reads."""

from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from cdc.core.table import TableName
from cdc.views.statement.statement import Statement


def list_read_columns(statement: Statement) -> dict[TableName, list[str]]:
    """Per table, the columns that the statement reads, in the table's order."""
    read: dict[TableName, set[str]] = {use.table: set() for use in statement.uses.values()}
    for scope in traverse_scope(statement.tree):
        for column in scope.columns:
            source = scope.sources.get(column.table)
            if isinstance(source, exp.Table):
                use = statement.uses[id(source)]
                read[use.table].add(statement.column(use.alias, column.name).name)
    tables = statement.tables
    return {name: [c for c in tables[name].column_names if c in names] for name, names in read.items()}
