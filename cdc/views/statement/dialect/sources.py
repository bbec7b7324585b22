"""What is named in FROM and JOIN."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from cdc.views.statement.dialect.translator import Translator, check_arguments, column_types
from cdc.views.statement.dialect.types import TIMESTAMP, quote
from cdc.views.statement.dialect.values import PartNotProvenError, require
from cdc.views.statement.tree.nodes import Derived, Join, Query, Scan, Select, Source

if TYPE_CHECKING:
    from cdc.views.statement.dialect.queries import WrittenQuery

WriteQuery = Callable[[Translator, Query], "WrittenQuery"]
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


def write_sources(t: Translator, query: Select, write_query: WriteQuery) -> str:
    """FROM with its joins in DuckDB's SQL."""
    require(query.node.args.get("from_"), "SELECT without FROM")
    require(query.is_chain and query.first, "a comma, CROSS JOIN or parentheses beside other joins")
    assert query.first is not None
    for join in query.node.args.get("joins") or []:
        check_arguments(join, frozenset(["this", "side", "kind", "on"]))
    parts = [f" FROM {_write(t, query.first, write_query)}"]
    for join in query.joins:
        kind = (join.side or "", join.kind or "")
        require(kind in _JOINS, f"{' '.join(kind).strip()} JOIN")
        parts.append(f" {_JOINS[kind]} {_write(t, join.source, write_query)}{_write_on(t, join)}")
    return "".join(parts)


def _write_on(t: Translator, join: Join) -> str:
    if join.on is None:
        require(join.kind == "CROSS", "JOIN without ON")
        return ""
    return f" ON {t.condition(join.on)}"


def _write(t: Translator, source: Source, write_query: WriteQuery) -> str:
    if isinstance(source, Scan):
        return _write_scan(t, source)
    require(isinstance(source, Derived), "another source than a table or a query")
    assert isinstance(source, Derived)
    query = write_query(t, source.query)
    if any(str(of) == "NullType()" for of in query.types):
        t.report(source.query.node, "a column of no type")
        raise PartNotProvenError
    t.sources[source.name] = dict(zip(query.names, query.types, strict=True))
    return f"({query.sql}) AS {quote(source.name)} ({', '.join(map(quote, query.names))})"


def _write_scan(t: Translator, scan: Scan) -> str:
    columns = column_types(scan.table)
    t.sources[scan.name] = columns
    place = quote(t.names[scan.table.name])
    # the others are not among the rows
    known = {each.lower() for each in t.read.get(scan.table.name, ())}
    changed = [change for name, of in columns.items() if name in known and (change := _localize(name, of))]
    rows = f"(SELECT * REPLACE ({', '.join(changed)}) FROM {place})" if changed else place  # noqa: S608
    return f"{rows} AS {quote(scan.name)}"


def _localize(name: str, of: T.DataType) -> str:
    """A moment as the local time in UTC: no function of DuckDB then asks for the session's zone."""
    if of == TIMESTAMP:
        return f"make_timestamp(epoch_us({quote(name)})) AS {quote(name)}"
    if of == T.ArrayType(TIMESTAMP):
        return f"list_transform({quote(name)}, lambda each: make_timestamp(epoch_us(each))) AS {quote(name)}"
    return ""
