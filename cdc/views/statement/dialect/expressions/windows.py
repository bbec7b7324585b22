"""Window functions. Where rows tie, a result that depends on their order is not certain in either engine."""

from sqlglot import exp

from cdc.views.statement.dialect.expressions.aggregates import filter_of
from cdc.views.statement.dialect.expressions.literals import whole_number
from cdc.views.statement.dialect.registry import AGGREGATES, proven
from cdc.views.statement.dialect.translator import Translator, check_arguments
from cdc.views.statement.dialect.types import INTEGER, NOTHING, UnorderedArrayType, is_identified, is_orderable
from cdc.views.statement.dialect.values import Value, require, retype
from cdc.views.statement.entrance.kinds import kind_of

_RANKS: dict[type[exp.Expr], str] = {exp.Rank: "rank", exp.DenseRank: "dense_rank", exp.RowNumber: "row_number"}
_VALUES: dict[type[exp.Expr], str] = {
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
}
_SIDES = {"PRECEDING", "FOLLOWING"}


@proven(exp.Window, "this", "partition_by", "order", "spec", "over")
def write_window(t: Translator, node: exp.Window) -> Value:
    """A function with OVER. Without a frame, both engines go from the first row to the last that ties."""
    partition = [_key(t, part) for part in node.args.get("partition_by") or []]
    order = node.args["order"].expressions if node.args.get("order") else []
    parts = [f"PARTITION BY {', '.join(partition)}"] if partition else []
    parts += [f"ORDER BY {', '.join(write_ordered(t, part) for part in order)}"] if order else []
    spec = node.args.get("spec")
    parts += [_write_frame(spec)] if spec else []
    by_place = type(node.this) in (exp.RowNumber, *_VALUES) or (
        spec is not None and spec.args["kind"].upper() == "ROWS"
    )
    require(not by_place or t.is_total(node), "rows may tie: its ORDER BY has not the keys of all tables")
    return _write_function(t, node.this, f" OVER ({' '.join(parts)})", bool(order))


def _key(t: Translator, part: exp.Expr) -> str:
    value = t.value(part)
    require(is_identified(value.type), f"a partition by {value.type.simpleString()}")
    return value.sql


def write_ordered(t: Translator, part: exp.Expr) -> str:
    """An item of ORDER BY: nulls come first where it ascends, last where it descends, unless it says so itself."""
    assert isinstance(part, exp.Ordered)
    check_arguments(part, frozenset(["this", "desc", "nulls_first"]))
    value = t.value(part.this)
    require(is_orderable(value.type), f"an order by {value.type.simpleString()}")
    direction = "DESC" if part.args.get("desc") else "ASC"
    return f"{value.sql} {direction} NULLS {'FIRST' if part.args.get('nulls_first') else 'LAST'}"


def _write_frame(spec: exp.Expr) -> str:
    check_arguments(spec, frozenset(["kind", "start", "start_side", "end", "end_side"]))
    kind = spec.args["kind"].upper()
    require(kind in ("ROWS", "RANGE"), "this frame")
    start = _write_bound(kind, spec.args.get("start"), spec.args.get("start_side"))
    end = _write_bound(kind, spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"))
    return f"{kind} BETWEEN {start} AND {end}"


def _write_bound(kind: str, bound: object, side: object) -> str:
    if isinstance(bound, str):
        require(bound.upper() in ("UNBOUNDED", "CURRENT ROW"), "this frame")
        return f"{bound} {side or ''}".strip().upper()
    require(kind == "ROWS" and str(side).upper() in _SIDES, "a range by values")
    return f"{whole_number(bound)} {side}".upper()


def _write_function(t: Translator, node: exp.Expr, over: str, is_ordered: bool) -> Value:
    before = ""
    if isinstance(node, exp.Filter):
        before, node = filter_of(t, node), node.this
    if kind_of(node) in AGGREGATES:
        return t.aggregate(node, before + over)
    require(is_ordered and not before, "OVER of it, without an order or with a FILTER")
    if type(node) in _RANKS:
        check_arguments(node, frozenset())
        return Value(f"CAST({_RANKS[type(node)]}(){over} AS INTEGER)", INTEGER)
    require(type(node) in _VALUES, "OVER of it")
    return _write_neighbour(t, node, over)


def _write_neighbour(t: Translator, node: exp.Expr, over: str) -> Value:
    """`lag`, `lead`, `first_value`, `last_value`."""
    check_arguments(node, frozenset(["this", "offset", "default"]))
    value = t.value(node.this)
    require(value.type != NOTHING and not isinstance(value.type, UnorderedArrayType), f"of {value.type.simpleString()}")
    arguments = [value.sql]
    if node.args.get("offset"):
        arguments.append(str(whole_number(node.args["offset"])))
    if node.args.get("default"):
        default = t.value(node.args["default"])
        require(default.type in (value.type, NOTHING), "with a default of another type")
        arguments.append(retype(default, value.type).sql)
    return Value(f"{_VALUES[type(node)]}({', '.join(arguments)}){over}", value.type)
