"""Read a view's statement: parse, name every column's table, inline common table expressions, refuse the rest."""

from collections.abc import Iterator, Mapping
from itertools import count

import sqlglot
from sqlglot import exp
from sqlglot.errors import OptimizeError, ParseError
from sqlglot.optimizer.qualify import qualify

from cdc.columns.values.spark_types import spark_type
from cdc.core.errors import ConfigurationError
from cdc.core.table import Table, TableName
from views.plan import TableUse
from views.statement.statement import Statement

DIALECT = "spark"


def parse_statement(view: str, sql: str, tables: Mapping[TableName, Table]) -> Statement:
    """Parse a view's SQL over these tables; raises ConfigurationError with the place in the statement."""
    tree = _parse(view, sql)
    schema: dict[str, object] = {}
    for table in tables.values():
        columns = {column.name: spark_type(column).simpleString() for column in table.columns}
        tables_of = schema.setdefault(table.name.schema, {})
        assert isinstance(tables_of, dict)
        tables_of[table.name.table] = columns
    try:
        tree = qualify(tree, schema=schema, dialect=DIALECT, db="public", quote_identifiers=False)
    except OptimizeError as error:
        raise ConfigurationError(f"views.{view}: {error}", "correct its sql") from None
    tree = _inline(tree)
    return Statement(tree, tables, _name_uses(tree))


def _parse(view: str, sql: str) -> exp.Query:
    try:
        trees = sqlglot.parse(sql, read=DIALECT)
    except ParseError as error:
        first = error.errors[0]
        place = f"line {first['line']}, column {first['col']}"
        raise ConfigurationError(f"views.{view}: {first['description']} at {place}", "correct its sql") from None
    [tree] = trees
    if not isinstance(tree, exp.Query):
        raise ConfigurationError(f"views.{view} is no SELECT", "a view is one query")
    return tree


def _inline(tree: exp.Query) -> exp.Query:
    """Put a copy of each common table expression where it is named: every use of a table is then a node of its own."""
    for query in [*tree.find_all(exp.Query)]:
        with_ = query.args.get("with_") or query.args.get("with")
        if not with_:
            continue
        known = dict[str, exp.Query]()
        for cte in with_.expressions:
            known[cte.alias] = _replace(cte.this, known)
        with_.pop()
        _replace(query, known)
    return tree


def _replace(query: exp.Query, known: Mapping[str, exp.Query]) -> exp.Query:
    for table in [*query.find_all(exp.Table)]:
        if not table.db and table.name in known:
            table.replace(known[table.name].copy().subquery(table.alias_or_name))
    return query


def _name_uses(tree: exp.Query) -> dict[int, TableUse]:
    uses, taken = dict[int, TableUse](), set[str]()
    for table in tree.find_all(exp.Table):
        names = (f"{table.alias_or_name}{suffix}" for suffix in _suffixes())
        alias = next(name for name in names if name not in taken)
        taken.add(alias)
        uses[id(table)] = TableUse(alias, TableName(table.db, table.name))
    return uses


def _suffixes() -> Iterator[str]:
    yield ""
    yield from (f"#{number}" for number in count(2))
