"""Queries: SELECT with its clauses, UNION and its like, and subqueries in expressions."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import types as T
from sqlglot import exp

from cdc.views.statement.dialect.expressions.comparisons import write_in
from cdc.views.statement.dialect.registry import proven
from cdc.views.statement.dialect.sources import write_sources
from cdc.views.statement.dialect.translator import Translator, check_arguments
from cdc.views.statement.dialect.types import (
    BOOLEAN,
    UnorderedArrayType,
    common_type,
    duckdb_type,
    is_identified,
    is_orderable,
    quote,
)
from cdc.views.statement.dialect.values import NotProvenError, PartNotProvenError, Value, require
from cdc.views.statement.tree.nodes import Query, Select, SetOperation, query_of

_SELECT = frozenset(["expressions", "from_", "joins", "where", "group", "having", "distinct", "order"])
_SET_OPERATION = frozenset(["this", "expression", "distinct", "order"])
_WORDS: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}


@dataclass(frozen=True, slots=True)
class WrittenQuery:
    """A query in DuckDB's SQL, with the names and Spark's types of its columns."""

    sql: str
    names: Sequence[str]
    types: Sequence[T.DataType]


def write_query(t: Translator, query: Query) -> WrittenQuery:
    """Translate a query; raises PartNotProvenError after what is not proven was reported."""
    try:
        if isinstance(query, SetOperation):
            return _write_set_operation(t, query)
        require(isinstance(query, Select), "a query of another form")
        assert isinstance(query, Select)
        with t.within(query):
            return _write_select(t, query)
    except NotProvenError as error:
        t.report(query.node, str(error))
        raise PartNotProvenError from None


def _write_select(t: Translator, query: Select) -> WrittenQuery:
    check_arguments(query.node, _SELECT)
    _check_order(query.node)
    from_ = write_sources(t, query, write_query)
    values = _try_all(t, query)
    names = [output.name.lower() for output in query.outputs]
    distinct = query.clause("distinct")
    if distinct:
        require(not distinct.args.get("on"), "DISTINCT ON")
        require(all(is_identified(value.type) for value in values.outputs), "DISTINCT of these types")
    columns = ", ".join(f"{value.sql} AS {quote(name)}" for value, name in zip(values.outputs, names, strict=True))
    sql = f"SELECT {'DISTINCT ' if distinct else ''}{columns}{from_}{values.clauses}"
    return WrittenQuery(sql, names, [value.type for value in values.outputs])


@dataclass(frozen=True, slots=True)
class _Parts:
    outputs: Sequence[Value]
    clauses: str


def _try_all(t: Translator, query: Select) -> _Parts:
    """Translate all clauses, so that what is not proven in each is reported."""
    clauses, outputs, failed = list[str](), list[Value](), False
    for write in (_write_where, _write_group, _write_having):
        try:
            clauses.append(write(t, query.node))
        except PartNotProvenError:
            failed = True
        except NotProvenError as error:
            t.report(query.node, str(error))
            failed = True
    for output in query.outputs:
        try:
            outputs.append(t.value(output.value))
        except PartNotProvenError:
            failed = True
    if failed:
        raise PartNotProvenError
    return _Parts(outputs, "".join(clauses))


def _write_where(t: Translator, node: exp.Select) -> str:
    return f" WHERE {t.condition(node.args['where'].this)}" if node.args.get("where") else ""


def _write_group(t: Translator, node: exp.Select) -> str:
    group = node.args.get("group")
    if not group:
        return ""
    check_arguments(group, frozenset(["expressions"]))
    values = [t.value(part) for part in group.expressions]
    others = [value.type.simpleString() for value in values if not is_identified(value.type)]
    require(not others, f"GROUP BY {', '.join(others)}")
    return f" GROUP BY {', '.join(value.sql for value in values)}"


def _write_having(t: Translator, node: exp.Select) -> str:
    if not node.args.get("having"):
        return ""
    # Spark takes a name in HAVING for that of an output, sqlglot for the column's
    hidden = {part.alias for part in node.selects if part.alias and not _is_column(part)}
    names = {column.name for column in node.args["having"].find_all(exp.Column)}
    require(not hidden & names, f"HAVING with {', '.join(sorted(hidden & names))}, which is also an output's name")
    return f" HAVING {t.condition(node.args['having'].this)}"


def _is_column(part: exp.Expr) -> bool:
    value = part.unalias()
    return isinstance(value, exp.Column) and value.name == part.alias


def _check_order(node: exp.Expr) -> None:
    """A view's rows have no order; what is ordered by has to be a column, so that it has no error of its own."""
    order = node.args.get("order")
    parts = order.expressions if order else []
    require(all(isinstance(part.this, exp.Column) for part in parts), "ORDER BY something else than a column")


def _write_set_operation(t: Translator, query: SetOperation) -> WrittenQuery:
    check_arguments(query.node, _SET_OPERATION)
    _check_order(query.node)
    left, right = write_query(t, query.left), write_query(t, query.right)
    types = [_common(one, other) for one, other in zip(left.types, right.types, strict=True)]
    is_comparable = all(is_identified(of) for of in types)
    require(is_comparable or not query.compares_rows, "rows of these types are compared")
    word = f"{_WORDS[type(query.node)]}{'' if query.is_distinct else ' ALL'}"
    sql = f"({_widen(left, types)}) {word} ({_widen(right, types)})"
    return WrittenQuery(sql, left.names, types)


def _common(one: T.DataType, other: T.DataType) -> T.DataType:
    found = one if one.simpleString() == other.simpleString() else common_type(one, other)
    if found is None:
        raise NotProvenError(f"{one.simpleString()} with {other.simpleString()}")
    # the order of one branch is enough to make all uncertain
    return other if isinstance(other, UnorderedArrayType) else found


def _widen(query: WrittenQuery, types: Sequence[T.DataType]) -> str:
    if [duckdb_type(of) for of in query.types] == [duckdb_type(of) for of in types]:
        return query.sql
    names = [f'"c{number}"' for number in range(len(types))]
    columns = ", ".join(
        f"CAST({name} AS {duckdb_type(of)}) AS {quote(output)}"
        for name, of, output in zip(names, types, query.names, strict=True)
    )
    return f'SELECT {columns} FROM ({query.sql}) AS "#branch" ({", ".join(names)})'  # noqa: S608


def _write_nested(t: Translator, node: exp.Expr) -> WrittenQuery:
    query = query_of(node)
    require(query, "a query of another form")
    assert query is not None
    return write_query(t, query)


@proven(exp.Subquery, "this", "alias")
def write_scalar(t: Translator, node: exp.Subquery) -> Value:
    """A subquery of one value; both engines have an error for several rows."""
    query = _write_nested(t, node)
    require(len(query.types) == 1, "of several columns")
    return Value(f"({query.sql})", query.types[0])


@proven(exp.Exists, "this")
def write_exists(t: Translator, node: exp.Exists) -> Value:
    """EXISTS."""
    return Value(f"(EXISTS ({_write_nested(t, node.this).sql}))", BOOLEAN)


@proven(exp.In, "this", "expressions", "query")
def write_in_query(t: Translator, node: exp.In) -> Value:
    """`x IN (SELECT ...)`, both of one type, or `x IN (...)`."""
    if not node.args.get("query"):
        return write_in(t, node)
    query, value = _write_nested(t, node.args["query"]), t.value(node.this)
    require([value.type] == list(query.types) and is_orderable(value.type), "of two types")
    return Value(f"({value.sql} IN ({query.sql}))", BOOLEAN)
