"""What is named in FROM and JOIN."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import types as T
from sqlglot import exp

from cdc.core.table import TableName
from cdc.views.statement.dialect.translator import SourceColumns, Translator, check_arguments, column_types
from cdc.views.statement.dialect.types import TIMESTAMP, quote
from cdc.views.statement.dialect.values import PartNotProvenError, require
from cdc.views.statement.join_order import joins_from_left

if TYPE_CHECKING:
    from cdc.views.statement.dialect.queries import Query

WriteQuery = Callable[[Translator, exp.Expr], "Query"]
_JOINS = {
    ("", ""): "JOIN",
    ("", "INNER"): "JOIN",
    ("", "CROSS"): "CROSS JOIN",
    ("LEFT", ""): "LEFT JOIN",
    ("LEFT", "OUTER"): "LEFT JOIN",
    ("RIGHT", ""): "RIGHT JOIN",
    ("RIGHT", "OUTER"): "RIGHT JOIN",
    ("FULL", ""): "FULL JOIN",
    ("FULL", "OUTER"): "FULL JOIN",
    ("LEFT", "SEMI"): "SEMI JOIN",
    ("", "SEMI"): "SEMI JOIN",
    ("LEFT", "ANTI"): "ANTI JOIN",
    ("", "ANTI"): "ANTI JOIN",
}


def read_sources(t: Translator, node: exp.Select, write_query: WriteQuery) -> tuple[str, dict[str, SourceColumns]]:
    """FROM with its joins in DuckDB's SQL, and what their names give."""
    from_ = node.args.get("from_")
    require(from_, "SELECT without FROM")
    assert from_ is not None
    require(joins_from_left(node), "a comma, CROSS JOIN or parentheses beside other joins")
    sql, name, source = _read(t, from_.this, write_query)
    parts, sources, shown = [f" FROM {sql}"], {name: source}, {name: source}
    for join in node.args.get("joins") or []:
        check_arguments(join, frozenset(["this", "side", "kind", "on"]))
        kind = (join.side or "", join.kind or "")
        require(kind in _JOINS, f"{' '.join(kind).strip()} JOIN")
        sql, name, source = _read(t, join.this, write_query)
        sources[name] = source
        if kind[1] not in ("SEMI", "ANTI"):
            shown[name] = source
        parts.append(f" {_JOINS[kind]} {sql}{_write_on(t, join, sources)}")
    return "".join(parts), shown


def _write_on(t: Translator, join: exp.Join, sources: dict[str, SourceColumns]) -> str:
    on = join.args.get("on")
    if on is None:
        require(join.kind == "CROSS", "JOIN without ON")
        return ""
    with t.sources(sources):
        return f" ON {t.condition(on)}"


def _read(t: Translator, node: exp.Expr, write_query: WriteQuery) -> tuple[str, str, SourceColumns]:
    if isinstance(node, exp.Table):
        return _read_table(t, node)
    require(isinstance(node, exp.Subquery), "another source than a table or a query")
    check_arguments(node, frozenset(["this", "alias"]))
    query = write_query(t, node.this)
    alias = node.args.get("alias")
    names = [column.name.lower() for column in alias.columns] if alias else []
    columns = f" ({', '.join(quote(name) for name in names or query.names)})"
    if any(str(of) == "NullType()" for of in query.types):
        t.report(node, "a column of no type")
        raise PartNotProvenError
    return f"({query.sql}) AS {quote(node.alias_or_name)}{columns}", node.alias_or_name, query.as_source(names)


def _read_table(t: Translator, node: exp.Table) -> tuple[str, str, SourceColumns]:
    check_arguments(node, frozenset(["this", "db", "alias"]))
    require(not node.args["alias"].columns if node.args.get("alias") else True, "other names of columns")
    name = t.find_table(TableName(node.db, node.name))
    table = t.tables[name]
    columns, alias = column_types(table), node.alias_or_name
    unique = frozenset(column.lower() for column in table.key) or None
    place = quote(t.names[name])
    # the others are not among the rows
    read = {column: of for column, of in columns.items() if column in {each.lower() for each in t.read.get(name, ())}}
    moments = [column for column, of in read.items() if of == TIMESTAMP]
    lists = [column for column, of in read.items() if of == T.ArrayType(TIMESTAMP)]
    # a moment becomes the local time in UTC: no function of DuckDB then asks for the session's zone
    changed = [f"make_timestamp(epoch_us({quote(column)})) AS {quote(column)}" for column in moments]
    changed += [
        f"list_transform({quote(column)}, lambda each: make_timestamp(epoch_us(each))) AS {quote(column)}"
        for column in lists
    ]
    sql = f"(SELECT * REPLACE ({', '.join(changed)}) FROM {place})" if changed else place  # noqa: S608
    return f"{sql} AS {quote(alias)}", alias, SourceColumns(columns, unique)
