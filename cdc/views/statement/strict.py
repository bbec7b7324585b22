"""Expressions that are null as soon as a column in them is: only such a value is absent where its row is."""

from typing import Final

from sqlglot import exp

_STRICT: Final = {
    *(
        exp.Column,
        exp.Paren,
        exp.Cast,
        exp.TryCast,
        exp.Add,
        exp.Sub,
        exp.Mul,
        exp.Div,
        exp.IntDiv,
        exp.Mod,
        exp.Neg,
        exp.DPipe,
    ),
    *(exp.Abs, exp.Round, exp.Ceil, exp.Floor, exp.Upper, exp.Lower, exp.Trim, exp.Length, exp.Substring, exp.Left),
    *(exp.Right, exp.Replace, exp.Concat, exp.Reverse, exp.Pad, exp.MD5, exp.DateTrunc, exp.TimestampTrunc),
    *(exp.Year, exp.Month, exp.Day, exp.Hour, exp.Minute, exp.Second, exp.Extract, exp.TsOrDsToDate, exp.TsOrDsAdd),
    *(exp.DateDiff, exp.UnixDate, exp.UnixMicros, exp.Sign),
}
"""By their very classes: concat_ws, which leaves nulls out, is a kind of concat for sqlglot."""
_STRICT_NAMES: Final = frozenset(["window_start", "later", "pmod", "btrim"])
_WITHOUT_VALUES: Final = (
    exp.Identifier,
    exp.Literal,
    exp.DataType,
    exp.DataTypeParam,
    exp.Var,
    exp.Interval,
    exp.Boolean,
)


def is_strict(value: exp.Expr) -> bool:
    """Whether an expression is null wherever any column in it is null. Where nobody knows, it is not."""
    if isinstance(value, _WITHOUT_VALUES):
        return True
    is_named = isinstance(value, exp.Anonymous) and value.name.lower() in _STRICT_NAMES
    return (is_named or type(value) in _STRICT) and all(is_strict(part) for part in value.iter_expressions())
