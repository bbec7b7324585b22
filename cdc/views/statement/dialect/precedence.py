"""Where sqlglot and Spark may read operators without parentheses differently.

Spark has comparisons on one level, and LIKE, IN and BETWEEN behind them: `a = b LIKE c` is `(a = b) LIKE c`, for
sqlglot `a = (b LIKE c)`. It has `||` on the level of `+`, and `&`, `^`, `|` on three levels.
"""

from sqlglot import exp

from cdc.views.statement.dialect.values import require

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_PREDICATES = (*_COMPARISONS, exp.Is, exp.Like, exp.In, exp.Between)
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_SUMS = (exp.Add, exp.Sub)
_WRONG: dict[type[exp.Expr], tuple[type[exp.Expr], ...]] = {
    **dict.fromkeys(_PREDICATES, (*_PREDICATES, exp.Not, exp.Escape)),
    **{kind: (*(other for other in _BITS if other is not kind), exp.DPipe) for kind in _BITS},
    **dict.fromkeys(_SUMS, (exp.DPipe,)),
    exp.DPipe: (*_SUMS, *_BITS),
}
"""Per operator, those that are not proven as its operands without parentheses."""


def check_precedence(node: exp.Expr) -> None:
    """Leave off an operator whose operands may be others in Spark."""
    wrong = _WRONG.get(type(node))
    if wrong:
        operands = (part for name, part in node.args.items() if name in ("this", "expression", "low", "high"))
        require(not any(isinstance(part, wrong) for part in operands), "beside another operator, without parentheses")
