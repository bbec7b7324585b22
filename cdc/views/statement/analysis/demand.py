"""Which columns of its tables a statement reads."""

from sqlglot import exp

from cdc.core.table import Table, TableName
from cdc.views.statement.statement import Statement
from cdc.views.statement.tree.nodes import OpaqueSource, Scan


def list_read_columns(statement: Statement) -> dict[TableName, list[str]]:
    """Per table, the columns that the statement reads, in the table's order; all of what is not followed."""
    tree, tables = statement.tree, statement.tables
    read: dict[TableName, set[str]] = {use.table: set() for use in tree.uses}
    # a column that nobody has may be anybody's
    is_followed = all(column.table in tree.sources for column in tree.columns() if column.table)
    if statement.admission.opaque or not is_followed:
        return {name: [*tables[name].column_names] for name in read}
    for opaque in tree.sources.values():
        # PIVOT groups by all columns that it does not name
        if isinstance(opaque, OpaqueSource) and isinstance(opaque.of, Scan):
            read[opaque.of.table.name] |= {*opaque.of.table.column_names}
    for column in tree.columns():
        source = tree.sources.get(column.table)
        if isinstance(source, Scan):
            read[source.table.name] |= _find_named(source.table, column)
    return {name: [c for c in tables[name].column_names if c in names] for name, names in read.items()}


def _find_named(table: Table, column: exp.Expr) -> set[str]:
    names = table.column_names
    return {*names} if column.is_star else {name for name in names if name.lower() == column.name.lower()}
