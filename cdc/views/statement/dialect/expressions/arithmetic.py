"""Arithmetic: where Spark has an error (overflow, division by zero), DuckDB has one, too."""

from pyspark.sql import types as T
from sqlglot import exp

from cdc.views.statement.dialect.expressions.comparisons import operands
from cdc.views.statement.dialect.expressions.dates import add_interval, is_interval_sum
from cdc.views.statement.dialect.expressions.literals import whole_number, write_number
from cdc.views.statement.dialect.registry import proven
from cdc.views.statement.dialect.translator import Translator
from cdc.views.statement.dialect.types import (
    DOUBLE,
    INTEGER,
    LONG,
    MOST_DIGITS,
    NOTHING,
    as_decimal,
    common_type,
    decimal,
    duckdb_type,
    is_decimal,
    is_floating,
    is_integral,
)
from cdc.views.statement.dialect.values import NotProvenError, Value, require, retype, unify

_SYMBOLS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_BEYOND_64_BITS = 19
_ROUNDED = 34
"""Digits of a decimal beyond which Spark rounds its negation and its absolute value, or has an error."""
_LEAST_SCALE = 6
"""Digits that Spark keeps at least in a quotient."""


def unscaled(value: Value, of: T.DecimalType) -> str:
    """A decimal's digits as a HUGEINT."""
    require(of.precision + of.scale <= MOST_DIGITS, f"{of.simpleString()} is too long")
    power = f"CAST('1{'0' * of.scale}' AS DECIMAL({of.scale + 1}, 0))"
    return f"CAST({retype(value, _long(of)).sql} * {power} AS HUGEINT)"


def scaled(digits: str, to: T.DecimalType) -> Value:
    """A decimal of these digits, a HUGEINT. A product keeps them, where a quotient would be a double."""
    unit = f"CAST('{10**-to.scale:.{to.scale}f}' AS DECIMAL({max(to.scale, 1)}, {to.scale}))" if to.scale else "1"
    return Value(f"CAST(CAST({digits} AS DECIMAL({to.precision}, 0)) * {unit} AS {duckdb_type(to)})", to)


@proven(exp.Add, "this", "expression")
@proven(exp.Sub, "this", "expression")
@proven(exp.Mul, "this", "expression")
def write_arithmetic(t: Translator, node: exp.Binary) -> Value:
    """Sums, differences and products."""
    if is_interval_sum(node):
        return add_interval(t, node)
    left, right = operands(t, node.this, node.expression)
    symbol = _SYMBOLS[type(node)]
    if is_decimal(left.type) ^ is_decimal(right.type) or (is_decimal(left.type) and is_decimal(right.type)):
        return _write_decimal(symbol, left, right)
    one, other = _numbers(left, right)
    return Value(f"({one.sql} {symbol} {other.sql})", one.type)


def _numbers(left: Value, right: Value) -> tuple[Value, Value]:
    one, other = unify(left, right)
    require(is_integral(one.type) or is_floating(one.type), f"of {left.type.simpleString()}")
    require(NOTHING not in (left.type, right.type), "of no type")
    return one, other


def _write_decimal(symbol: str, left: Value, right: Value) -> Value:
    if is_floating(left.type) or is_floating(right.type):
        one, other = _numbers(left, right)
        return Value(f"({one.sql} {symbol} {other.sql})", one.type)
    one_type, other_type = _decimals(left, right)
    if symbol == "*":
        found = decimal(one_type.precision + other_type.precision + 1, one_type.scale + other_type.scale)
    else:
        scale = max(one_type.scale, other_type.scale)
        whole = max(one_type.precision - one_type.scale, other_type.precision - other_type.scale)
        found = decimal(whole + scale + 1, scale)
    # beyond 38 digits Spark rounds the result
    require(found, "its result may have more than 38 digits")
    assert found is not None
    if symbol == "*":
        one, other = retype(left, _long(one_type)), retype(right, other_type)
    else:
        one, other = retype(left, found), retype(right, found)
    return Value(f"CAST({one.sql} {symbol} {other.sql} AS {duckdb_type(found)})", found)


def _long(of: T.DecimalType) -> T.DecimalType:
    """A type beyond 64 bits: DuckDB's product of two decimals within them has an error beyond 18 digits."""
    return T.DecimalType(max(of.precision, _BEYOND_64_BITS), of.scale)


def _decimals(left: Value, right: Value) -> tuple[T.DecimalType, T.DecimalType]:
    one, other = as_decimal(left.type), as_decimal(right.type)
    if one is None or other is None:
        raise NotProvenError(f"of {left.type.simpleString()} and {right.type.simpleString()}")
    return one, other


@proven(exp.Div, "this", "expression", "typed", "safe")
def write_division(t: Translator, node: exp.Div) -> Value:
    """`/`: of decimals a decimal, of all others a double. DuckDB's would be a double, infinite for a zero."""
    left, right = operands(t, node.this, node.expression)
    numbers = common_type(left.type, right.type)
    require(numbers and NOTHING not in (left.type, right.type), "of these types")
    assert numbers is not None
    if is_decimal(numbers):
        return _divide_decimals(left, right)
    require(is_integral(numbers) or is_floating(numbers), f"of {numbers.simpleString()}")
    one, other = retype(left, DOUBLE), retype(right, DOUBLE)
    return Value(f"spark_divide({one.sql}, {other.sql})", DOUBLE)


def _divide_decimals(left: Value, right: Value) -> Value:
    one_type, other_type = _decimals(left, right)
    scale = max(_LEAST_SCALE, one_type.scale + other_type.precision + 1)
    digits = one_type.precision - one_type.scale + other_type.scale + scale
    # one digit for the doubling in rounding, and one for the divisor's half
    require(digits + 2 <= MOST_DIGITS and other_type.precision + 2 <= MOST_DIGITS, "its quotient is too long")
    to = T.DecimalType(digits, scale)
    one, other = retype(left, one_type), retype(right, other_type)
    power = 10 ** (scale - one_type.scale + other_type.scale)
    dividend = f"({unscaled(one, one_type)} * CAST('{power}' AS HUGEINT))"
    return scaled(f"spark_quotient({dividend}, {unscaled(other, other_type)})", to)


@proven(exp.Mod, "this", "expression")
def write_remainder(t: Translator, node: exp.Mod) -> Value:
    """`%`: with the sign of the dividend."""
    one, other = _same_numbers(t, node.this, node.expression)
    return _call("spark_remainder", one, other)


def _call(macro: str, one: Value, other: Value) -> Value:
    return Value(f"CAST({macro}({one.sql}, {other.sql}) AS {duckdb_type(one.type)})", one.type)


def _same_numbers(t: Translator, left: exp.Expr, right: exp.Expr) -> tuple[Value, Value]:
    one, other = operands(t, left, right)
    require(not is_decimal(one.type) and not is_decimal(other.type), "of decimals")
    return _numbers(one, other)


@proven("pmod", "this", "expressions")
def write_positive_remainder(t: Translator, node: exp.Anonymous) -> Value:
    """`pmod` of integers."""
    one, other = _same_numbers(t, *node.expressions)
    require(is_integral(one.type), f"of {one.type.simpleString()}")
    return _call("spark_pmod", one, other)


@proven(exp.Neg, "this")
def write_negation(t: Translator, node: exp.Neg) -> Value:
    """`-x`. Before a number it is part of the literal."""
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return write_number(f"-{node.this.name}")
    value = _signed(t, node.this)
    if is_integral(value.type):
        # a difference has an error for the smallest integer
        return Value(f"(CAST(0 AS {duckdb_type(value.type)}) - {value.sql})", value.type)
    return Value(f"(- {value.sql})", value.type)


def _signed(t: Translator, node: exp.Expr) -> Value:
    value = t.value(node)
    require(isinstance(value.type, T.NumericType), f"of {value.type.simpleString()}")
    is_long = isinstance(value.type, T.DecimalType) and value.type.precision > _ROUNDED
    require(not is_long, "of more than 34 digits, which Spark rounds")
    return value


@proven(exp.Abs, "this")
def write_absolute(t: Translator, node: exp.Abs) -> Value:
    """`abs(x)`."""
    value = _signed(t, node.this)
    return Value(f"abs({value.sql})", value.type)


@proven(exp.Sqrt, "this")
def write_root(t: Translator, node: exp.Sqrt) -> Value:
    """`sqrt(x)`, which IEEE 754 defines to the last bit; DuckDB has an error for negative numbers, Spark NaN."""
    [value, _] = unify(t.value(node.this), Value("0", DOUBLE))
    return Value(f"sqrt({value.sql})", DOUBLE)


@proven(exp.Round, "this", "decimals")
def write_round(t: Translator, node: exp.Round) -> Value:
    """`round(x, digits)`: half away from zero. Doubles are rounded to whole numbers only."""
    value, scale = t.value(node.this), whole_number(node.args.get("decimals") or exp.Literal.number(0))
    require(scale >= 0, "to less than a whole number")
    if isinstance(value.type, T.DecimalType):
        kept = min(scale, value.type.scale)
        return _to_decimal(value, value.type.precision - value.type.scale + 1 + kept, kept)
    if is_integral(value.type):
        return value
    require(value.type == DOUBLE and scale == 0, "of a double to digits behind the point")
    # Spark has no negative zero here
    return Value(f"(round({value.sql}) + 0.0::DOUBLE)", DOUBLE)


def _to_decimal(value: Value, digits: int, scale: int) -> Value:
    to = decimal(digits, scale)
    require(to, "its result may have more than 38 digits")
    assert to is not None
    return Value(f"CAST({value.sql} AS {duckdb_type(to)})", to)


@proven(exp.Floor, "this")
@proven(exp.Ceil, "this")
def write_floor(t: Translator, node: exp.Floor | exp.Ceil) -> Value:
    """`floor(x)` and `ceil(x)`: a bigint, of a decimal a decimal. DuckDB has an error beyond bigint."""
    value, name = t.value(node.this), "floor" if isinstance(node, exp.Floor) else "ceil"
    if is_integral(value.type):
        return retype(value, LONG)
    rounded = Value(f"{name}({value.sql})", value.type)
    if isinstance(value.type, T.DecimalType):
        return _to_decimal(rounded, value.type.precision - value.type.scale + 1, 0) if value.type.scale else value
    require(is_floating(value.type), f"of {value.type.simpleString()}")
    return Value(f"CAST({rounded.sql} AS BIGINT)", LONG)


@proven(exp.BitwiseAnd, "this", "expression")
@proven(exp.BitwiseOr, "this", "expression")
@proven(exp.BitwiseXor, "this", "expression")
def write_bits(t: Translator, node: exp.Binary) -> Value:
    """`&`, `|` and `^` of integers."""
    one, other = _same_numbers(t, node.this, node.expression)
    require(is_integral(one.type), f"of {one.type.simpleString()}")
    if isinstance(node, exp.BitwiseXor):
        return Value(f"xor({one.sql}, {other.sql})", one.type)
    return Value(f"({one.sql} {'&' if isinstance(node, exp.BitwiseAnd) else '|'} {other.sql})", one.type)


@proven(exp.BitwiseNot, "this")
def write_bit_complement(t: Translator, node: exp.BitwiseNot) -> Value:
    """`~x` of an integer."""
    value = t.value(node.this)
    require(value.type in (INTEGER, LONG), f"of {value.type.simpleString()}")
    return Value(f"(~ {value.sql})", value.type)
