"""Where a statement compares, sorts, groups or calculates with a column of a table.

A coarse look at the tree: it follows a column through subqueries, aliases and what picks one of several values, and
stops at casts and functions, whose results are no column's values any more.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from cdc.columns.types.text_meaning import UseKind
from cdc.core.table import Column, TableName
from cdc.views.statement.entrance.kinds import classes, kinds, name_of
from cdc.views.statement.statement import Statement
from cdc.views.statement.tree.nodes import (
    Derived,
    Generated,
    OpaqueSource,
    Query,
    Scan,
    SetOperation,
    Source,
    list_values,
    query_of,
)

Origin = tuple[TableName, Column]
"""A column of a table whose values an expression has, unchanged."""
Origins = frozenset[Origin]
ViewOrigins = Mapping[tuple[TableName, str], Origins]
"""The same of the columns of views, which other views read: by view and column in lower case."""
NOWHERE: Final[Origins] = frozenset()

_PICKS: Final = tuple(
    classes("""
    Alias AnyValue ArgMax ArgMin ArrayAgg ArrayMax ArrayMin ArraySort ArrayUniqueAgg Distinct Explode ExplodeOuter
    Filter First FirstValue IgnoreNulls Lag Last LastValue Lead Max Min NthValue Nullif Order Ordered Paren
    RespectNulls Window WithinGroup
""")
)
"""Expressions whose value is one of their first argument's, or a list of them."""
_EQUATING: Final = {exp.EQ: "=", exp.NEQ: "<>", exp.NullSafeEQ: "<=>", exp.NullSafeNEQ: "<=>"}
_ORDERING: Final = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
_MATCHING: Final = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.StartsWith, exp.EndsWith, exp.Contains)
_CALCULATING: Final[Mapping[type[exp.Expr], str]] = {
    **{exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div", exp.Neg: "-"},
    **{exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^", exp.BitwiseNot: "~"},
}
_OF_TEXTS: Final = (
    *classes("""
    Array ArraySize Case Cast Coalesce Concat ConcatWs Connector Count CountIf Exists If Initcap JSONExtract Left
    Length Lower MD5 Nvl2 Pad RegexpExtract RegexpReplace Replace Right SHA SHA2 Split StrPosition Struct Substring
    Trim TryCast Upper
"""),
    *_MATCHING,
)
"""Functions that mean the same of a text, or nothing of its value."""
_NAMED_OF_TEXTS: Final = kinds("""
    array_join bigint btrim decimal double element_at flatten float get_json_object hash inline int isnotnull isnull
    length ltrim map named_struct rtrim slice stack string to_json to_number try_to_number typeof xxhash64
""")


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column, what is done with it, by which word of SQL, and with which text of the statement, if with one."""

    table: TableName
    column: Column
    kind: UseKind
    word: str
    literal: str | None = None


class UseFinder:
    """The uses of columns in one statement. `of_views`: where the columns of the views that it reads come from."""

    def __init__(self, statement: Statement, of_views: ViewOrigins) -> None:
        self._tree = statement.tree
        self._of_views = of_views

    def find(self) -> Iterator[ColumnUse]:
        """All uses, each as often as it is there."""
        for query in self._tree.queries:
            for kind, word, value, literal in _find_operands(query):
                for table, column in self._trace(query, value):
                    yield ColumnUse(table, column, kind, word, literal)

    def list_outputs(self) -> dict[str, Origins]:
        """The origins of the statement's columns, by name in lower case."""
        root = self._tree.root
        return {output.name.lower(): self._trace_output(root, output.name) for output in root.outputs}

    def _trace(self, query: Query, value: exp.Expr | None) -> Origins:
        match value:
            case exp.Column():
                return self._trace_column(query, value)
            case exp.Case():
                return self._trace_all(
                    query, [*(each.args.get("true") for each in value.args["ifs"]), value.args.get("default")]
                )
            case exp.If() | exp.Nvl2():
                return self._trace_all(query, [value.args.get("true"), value.args.get("false")])
            case exp.Coalesce() | exp.Greatest() | exp.Least():
                return self._trace_all(query, [value.this, *value.expressions])
        if (inner := query_of(value)) is not None:
            return self._trace_output(inner, inner.outputs[0].name) if inner.outputs else NOWHERE
        return self._trace(query, value.this) if isinstance(value, _PICKS) else NOWHERE

    def _trace_all(self, query: Query, values: Iterable[exp.Expr | None]) -> Origins:
        return NOWHERE.union(*(self._trace(query, value) for value in values))

    def _trace_output(self, query: Query, name: str) -> Origins:
        return NOWHERE.union(*(self._trace(query, value) for value in list_values(query, name)))

    def _trace_column(self, query: Query, column: exp.Column) -> Origins:
        # in ORDER BY, a name of an output has no table
        if not column.table:
            return self._trace_output(query, column.name)
        return self._trace_source(self._tree.sources.get(column.table), column.name)

    def _trace_source(self, source: Source | None, name: str) -> Origins:
        match source:
            case Derived(query=query):
                return self._trace_output(query, name)
            case Generated():
                return self._trace_elements(source, name)
            case Scan(table=table):
                through_view = self._of_views.get((table.name, name.lower()))
                if through_view is not None:
                    return through_view
                return frozenset((table.name, each) for each in table.columns if each.name.lower() == name.lower())
            case OpaqueSource(of=Scan() | Derived() as inner):
                return self._trace_source(inner, name)
        return NOWHERE

    def _trace_elements(self, source: Generated, name: str) -> Origins:
        """The elements of a list that LATERAL makes rows of; the place among them is no value of it."""
        is_place = isinstance(source.call, exp.Posexplode) and name == next(iter(source.columns), None)
        owner = self._tree.owners[source.name]
        return (
            self._trace(owner, source.call.this) if isinstance(source.call, exp.Explode) and not is_place else NOWHERE
        )


_Operand = tuple[UseKind, str, exp.Expr | None, str | None]
_Pick = Callable[[exp.Expr], Iterable[exp.Expr]]


def _find_operands(query: Query) -> Iterator[_Operand]:
    """The expressions of a query that something is done with, and what."""
    if isinstance(query, SetOperation) and query.compares_rows:
        # which rows of its branches are the same as others
        outputs = (output.node for side in (query.left, query.right) for output in side.outputs)
        yield from ((UseKind.GROUPED, query.node.key.upper(), value, None) for value in outputs)
    for node in query.node.walk(bfs=False):
        yield from _operands_of(node)


def _operands_of(node: exp.Expr) -> Iterator[_Operand]:
    match node:
        case exp.EQ() | exp.NEQ() | exp.NullSafeEQ() | exp.NullSafeNEQ():
            yield from _compare(UseKind.EQUATED, _EQUATING[type(node)], [node.this, node.expression])
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            yield from _compare(UseKind.ORDERED, _ORDERING[type(node)], [node.this, node.expression])
        case exp.Between():
            yield from _compare(UseKind.ORDERED, "BETWEEN", [node.this, node.args["low"], node.args["high"]])
        case exp.In():
            yield from _compare(UseKind.EQUATED, "IN", [node.this, *node.expressions, node.args.get("query")])
        case exp.Case() if node.this:
            yield from _compare(UseKind.EQUATED, "CASE", [node.this, *(each.this for each in node.args["ifs"])])
        case exp.DecodeCase():
            yield from _compare(UseKind.EQUATED, "decode", node.expressions)
        case exp.Nullif() | exp.ArrayContains() | exp.ArrayPosition():
            yield from _compare(UseKind.EQUATED, name_of(node), [node.this, node.expression])
        case _:
            yield from _further_operands_of(node)


def _compare(kind: UseKind, word: str, operands: Iterable[exp.Expr | None]) -> Iterator[_Operand]:
    """Each operand, as compared with the others: with a literal if one of them is one."""
    there = [operand for operand in operands if operand is not None]
    texts = [operand.name for operand in there if isinstance(operand, exp.Literal) and operand.is_string]
    for operand in there:
        yield kind, word, operand, None
        yield from ((UseKind.LITERAL, word, operand, text) for text in texts)


def _further_operands_of(node: exp.Expr) -> Iterator[_Operand]:
    for nodes, kind, word, pick in _USES:
        if isinstance(node, nodes):
            yield from ((kind, word or name_of(node), value, None) for value in pick(node))
            return
    if _is_calculation(node):
        word = _CALCULATING.get(type(node)) or name_of(node)
        yield from ((UseKind.CALCULATED, word, value, None) for value in node.iter_expressions())


def _pick_first(node: exp.Expr) -> Iterable[exp.Expr]:
    return [node.this]


def _pick_operands(node: exp.Expr) -> Iterable[exp.Expr]:
    return [node.this, *node.expressions]


def _pick_groups(node: exp.Expr) -> Iterable[exp.Expr]:
    # GROUP BY ALL: by every output without an aggregate
    is_all = node.args.get("all") and isinstance(node.parent, exp.Select)
    plain = node.parent.selects if is_all and isinstance(node.parent, exp.Select) else []
    return [*node.iter_expressions(), *(value for value in plain if not value.find(exp.AggFunc))]


def _pick_distinct(node: exp.Expr) -> Iterable[exp.Expr]:
    return node.parent.selects if isinstance(node.parent, exp.Select) else node.expressions


_USES: Final[Sequence[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], UseKind, str, _Pick]]] = (
    (exp.Ordered, UseKind.ORDERED, "ORDER BY", _pick_first),
    (exp.ArraySort, UseKind.ORDERED, "sort_array", _pick_first),
    ((exp.Max, exp.Min, exp.Greatest, exp.Least, exp.ArrayMax, exp.ArrayMin), UseKind.ORDERED, "", _pick_operands),
    (exp.ArgMax, UseKind.ORDERED, "max_by", lambda node: [node.expression]),
    (exp.ArgMin, UseKind.ORDERED, "min_by", lambda node: [node.expression]),
    ((exp.Group, exp.Rollup, exp.Cube, exp.GroupingSets), UseKind.GROUPED, "GROUP BY", _pick_groups),
    (exp.ArrayUniqueAgg, UseKind.GROUPED, "collect_set", _pick_first),
    (exp.Distinct, UseKind.GROUPED, "DISTINCT", _pick_distinct),
    (exp.Window, UseKind.GROUPED, "PARTITION BY", lambda node: node.args.get("partition_by") or []),
    (_MATCHING, UseKind.MATCHED, "", _pick_first),
)
"""Nodes that do something with some of their parts: what, by which word (else the node's own), and with which parts."""


def _is_calculation(node: exp.Expr) -> bool:
    """Arithmetic, or a function that is not known to be about texts."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() not in _NAMED_OF_TEXTS
    is_function = isinstance(node, exp.Func) and not isinstance(node, (*_PICKS, *_OF_TEXTS))
    return type(node) in _CALCULATING or is_function
