"""Orders that leave rows in no order: which of those that tie comes first is nobody's decision, and may change.

`row_number() OVER (PARTITION BY customer ORDER BY at)` numbers two orders of the same moment as they come. So an order
has to decide between all rows that differ, or the statement is refused.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp

from cdc.views.statement.analysis.keys import RowIdentity
from cdc.views.statement.entrance.admission import Refused, refuse
from cdc.views.statement.tree.nodes import Select, Tree
from cdc.views.statement.tree.writing import text_of

_BY_PLACE: Final = (
    exp.RowNumber,
    exp.Lag,
    exp.Lead,
    exp.FirstValue,
    exp.LastValue,
    exp.NthValue,
    exp.Ntile,
    exp.First,
    exp.Last,
    exp.AnyValue,
)
_ORDER: Final = "rows may tie in its order: add columns to it that tell them apart, such as the key"
_EXTREME: Final = "rows may tie: order by struct(…) with the key at its end"
_JOINED: Final = "rows come in no order: sort by the value, as in WITHIN GROUP (ORDER BY value)"
_COMPARED: Final = "a comparison of one's own may leave elements in no order: sort_array has an order for all"


def find_ties(tree: Tree) -> Iterator[Refused]:
    """The expressions whose value depends on which of several rows comes first, though no order decides that."""
    identity = RowIdentity(tree)
    for query in tree.selects:
        for node in query.node.walk(bfs=False):
            if (why := _explain(identity, query, node)) is not None:
                yield refuse(node.this if isinstance(node, exp.Window) else node, "", why)


def _explain(identity: RowIdentity, query: Select, node: exp.Expr) -> str | None:
    match node:
        case exp.Window():
            return None if not _goes_by_place(node) or is_total(identity, query, node) else _ORDER
        case exp.Limit() | exp.Offset():
            return None if _is_cut_certain(identity, query) else _ORDER
        case exp.ArgMax() | exp.ArgMin():
            return None if _is_extreme_certain(identity, query, node) else _EXTREME
        case exp.GroupConcat():
            return None if _is_sorted_by_value(node) else _JOINED
        case exp.ArraySort():
            return _COMPARED if isinstance(node.args.get("expression"), exp.Lambda) else None
    return None


def _goes_by_place(window: exp.Window) -> bool:
    function = window.this
    while isinstance(function, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        function = function.this
    spec = window.args.get("spec")
    kind = str(spec.args.get("kind") or "").upper() if spec else ""
    return isinstance(function, _BY_PLACE) or kind not in ("", "RANGE")


def is_total(identity: RowIdentity, query: Select, window: exp.Window) -> bool:
    """Whether a window's order leaves no two rows that differ side by side."""
    name = window.args.get("alias")
    named = [each for each in query.list("windows") if name and each.name.lower() == name.name.lower()]
    keys = [key for each in (window, *named) for key in _keys(each)]
    return bool(keys) and identity.decides(query, keys)


def _keys(window: exp.Expr) -> Iterator[exp.Expr]:
    yield from window.args.get("partition_by") or []
    yield from _ordered(window)


def _ordered(node: exp.Expr) -> Iterator[exp.Expr]:
    order = node.args.get("order")
    for part in order.expressions if order else []:
        yield part.this


def _is_cut_certain(identity: RowIdentity, query: Select) -> bool:
    outputs = {output.name: output.value for output in query.outputs}
    keys = [_output(outputs, key) for key in _ordered(query.node)]
    texts = {text_of(key) for key in keys}
    if all(text_of(value) in texts for value in outputs.values()):
        return True
    is_grouped = query.clause("group") or not query.node.find(exp.AggFunc)
    return bool(is_grouped) and not query.clause("distinct") and identity.decides(query, keys)


def _output(outputs: dict[str, exp.Expr], key: exp.Expr) -> exp.Expr:
    """What an item of ORDER BY names: an output, by its name or number, or a column."""
    if isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit():
        at = int(key.name) - 1
        return [*outputs.values()][at] if 0 <= at < len(outputs) else key
    if isinstance(key, exp.Column) and not key.table:
        return outputs.get(key.name, key)
    return key


def _is_extreme_certain(identity: RowIdentity, query: Select, node: exp.Expr) -> bool:
    group = query.clause("group")
    around: Sequence[exp.Expr] = group.expressions if group else []
    window = node.find_ancestor(exp.Window, exp.Select)
    if isinstance(window, exp.Window):
        around = window.args.get("partition_by") or []
    known = [*around, node.expression]
    return identity.decides_value(query, known, node.this) or text_of(node.this) in map(text_of, known)


def _is_sorted_by_value(node: exp.Expr) -> bool:
    inner = node.this
    if isinstance(inner, exp.Order):
        value = inner.this.expressions[0] if isinstance(inner.this, exp.Distinct) else inner.this
        return any(text_of(part.this) == text_of(value) for part in inner.expressions)
    within = node.parent
    order = within.expression if isinstance(within, exp.WithinGroup) else None
    value = inner.expressions[0] if isinstance(inner, exp.Distinct) else inner
    return order is not None and any(text_of(part.this) == text_of(value) for part in order.expressions)
