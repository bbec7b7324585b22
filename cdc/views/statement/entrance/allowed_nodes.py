"""The parts of a statement that the analysis knows: node classes of sqlglot besides functions, each with its arguments.

An allow-list, as pg_ivm has one (`check_ivm_restriction_walker`): what is not on it is not followed, and a view with it
is computed as a whole.
"""

from typing import Final

from sqlglot import exp

_TWO: Final = frozenset(["this", "expression"])
_ONE: Final = frozenset(["this"])
_NONE: Final[frozenset[str]] = frozenset()


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_SET_OPERATION: Final = _names("this expression distinct order with_")
_QUERIES: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Select: _names(
        "expressions from_ joins where group having distinct order limit offset laterals windows qualify sort cluster"
        " distribute with_ hint"
    ),
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), _SET_OPERATION | {"limit", "offset"}),
    exp.Subquery: _names("this alias joins laterals with_ order limit offset"),
    exp.From: _ONE,
    exp.Table: _names("this db alias joins laterals"),
    exp.TableAlias: _names("this columns"),
    exp.Join: _names("this side kind on using method"),
    # of LATERAL VIEW; a lateral subquery is not followed
    exp.Lateral: _names("this view outer alias"),
    exp.Values: _names("expressions alias"),
    exp.With: _names("expressions"),
    exp.CTE: _names("this alias"),
    exp.Where: _ONE,
    exp.Having: _ONE,
    exp.Qualify: _ONE,
    exp.Group: _names("expressions all rollup cube grouping_sets"),
    exp.Rollup: _names("expressions"),
    exp.Cube: _names("expressions"),
    exp.GroupingSets: _names("expressions"),
    exp.Order: _names("this expressions"),
    exp.Sort: _names("expressions"),
    exp.Cluster: _names("expressions"),
    exp.Distribute: _names("expressions"),
    exp.Ordered: _names("this desc nulls_first"),
    exp.Limit: _names("expression"),
    exp.Offset: _names("expression"),
    exp.Distinct: _names("expressions"),
    exp.Hint: _names("expressions"),
}
_VALUES: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Alias: _names("this alias"),
    exp.Column: _names("this table db catalog"),
    exp.Star: _names("except_ replace rename"),
    exp.Identifier: _names("this quoted"),
    exp.Literal: _names("this is_string"),
    exp.Boolean: _ONE,
    exp.Null: _NONE,
    exp.HexString: _names("this is_integer"),
    exp.RawString: _ONE,
    exp.National: _ONE,
    exp.Var: _ONE,
    exp.DataType: _names("this expressions nested values kind nullable collate"),
    exp.DataTypeParam: _names("this expression"),
    exp.ColumnDef: _names("this kind"),
    exp.Interval: _names("this unit"),
    exp.IntervalSpan: _TWO,
    exp.Tuple: _names("expressions"),
    exp.Paren: _ONE,
    exp.Dot: _TWO,
    exp.Bracket: _names("this expressions offset safe returns_list_for_maps"),
    exp.PropertyEQ: _TWO,
    exp.Kwarg: _TWO,
    exp.Lambda: _names("this expressions colon"),
    exp.Window: _names("this partition_by order spec alias over first"),
    exp.WindowSpec: _names("kind start start_side end end_side"),
    exp.Filter: _TWO,
    exp.IgnoreNulls: _ONE,
    exp.RespectNulls: _ONE,
    exp.WithinGroup: _TWO,
    exp.Collate: _TWO,
    **dict.fromkeys((exp.AtTimeZone, exp.FromTimeZone), _names("this zone")),
    exp.JSONPath: _names("expressions"),
    exp.JSONPathRoot: _NONE,
    exp.JSONPathKey: _ONE,
    exp.JSONPathSubscript: _ONE,
    exp.JSONPathWildcard: _NONE,
}
_OPERATORS: Final[dict[type[exp.Expr], frozenset[str]]] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod, exp.DPipe), _TWO | {"safe"}),
    exp.Div: _names("this expression typed safe"),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), _TWO | {"padside"}),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _TWO | {"requires_int128"}),
    **dict.fromkeys((exp.Neg, exp.Not, exp.BitwiseNot), _ONE),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ), _TWO),
    **dict.fromkeys((exp.Like, exp.ILike), _TWO | {"negate"}),
    **dict.fromkeys((exp.Is, exp.Escape), _TWO),
    exp.In: _names("this expressions query"),
    exp.Between: _names("this low high"),
    **dict.fromkeys((exp.Any, exp.All), _ONE),
}
KNOWN: Final[dict[type[exp.Expr], frozenset[str]]] = {**_QUERIES, **_VALUES, **_OPERATORS}


def find_unknown_argument(node: exp.Expr) -> str | None:
    """An argument of a node that the list does not have; empty if the list has not its class, None if all is known."""
    known = KNOWN.get(type(node))
    if known is None:
        return ""
    return next((name for name, value in node.args.items() if value and name not in known), None)
