"""Literals, columns, and the fields of structs."""

from decimal import Decimal
from math import isinf

from pyspark.sql import types as T
from sqlglot import exp

from cdc.views.statement.dialect.registry import proven
from cdc.views.statement.dialect.translator import Translator
from cdc.views.statement.dialect.types import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    LONG,
    MOST_DIGITS,
    NOTHING,
    TEXT,
    duckdb_type,
    quote,
)
from cdc.views.statement.dialect.values import NotProvenError, Value, require, require_ordered, text_literal
from cdc.views.statement.tree.spelling import spell


def whole_number(node: object) -> int:
    """The number of an integer literal, perhaps with a sign: for arguments that have to be known."""
    if isinstance(node, exp.Neg):
        return -whole_number(node.this)
    is_whole = isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()
    require(is_whole, "only with a literal here")
    assert isinstance(node, exp.Literal)
    return int(node.name)


def text_of(node: object) -> str:
    """The text of a literal: for arguments that have to be known."""
    require(isinstance(node, exp.Literal) and node.is_string, "only with a literal here")
    assert isinstance(node, exp.Literal)
    return node.name


@proven(exp.Literal, "this", "is_string")
def write_literal(_: Translator, node: exp.Literal) -> Value:
    """A text or a number."""
    if node.is_string:
        return Value(f"CAST({text_literal(node.name)} AS VARCHAR)", TEXT)
    return write_number(node.name)


def write_number(text: str) -> Value:
    """A number has Spark's type by its own digits: 1 is an integer, 1.5 a decimal, 1e3 a double."""
    if "e" in text.lower():
        number = float(text)
        require(not isinf(number), "a number beyond doubles")
        return Value(f"CAST('{number!r}' AS DOUBLE)", DOUBLE)
    if text.lstrip("-").isdecimal():
        return _write_whole(int(text))
    try:
        _, digits, exponent = Decimal(text).as_tuple()
    except ArithmeticError:
        raise NotProvenError("a number of another form") from None
    assert isinstance(exponent, int)
    # Spark has no decimal with fewer digits than its scale
    of = T.DecimalType(max(len(digits), -exponent), -exponent)
    require(of.precision <= MOST_DIGITS, "a number of more than 38 digits")
    return Value(f"CAST('{text}' AS {duckdb_type(of)})", of)


def _write_whole(number: int) -> Value:
    digits = len(str(abs(number)))
    for of, bits in ((INTEGER, 31), (LONG, 63)):
        if -(2**bits) <= number < 2**bits:
            return Value(f"CAST('{number}' AS {duckdb_type(of)})", of, digits)
    require(digits <= MOST_DIGITS, "a number of more than 38 digits")
    return Value(f"CAST('{number}' AS DECIMAL({digits}, 0))", T.DecimalType(digits, 0))


@proven(exp.Boolean, "this")
def write_boolean(_: Translator, node: exp.Boolean) -> Value:
    """TRUE or FALSE."""
    return Value(str(bool(node.this)).upper(), BOOLEAN)


@proven(exp.Null)
def write_null(_: Translator, __: exp.Null) -> Value:
    """NULL, of no type."""
    return Value("CAST(NULL AS INTEGER)", NOTHING)


@proven(exp.Paren, "this")
def write_paren(t: Translator, node: exp.Paren) -> Value:
    """Parentheses: every expression has its own."""
    return t.value(node.this)


@proven(exp.Column, "this", "table")
def write_column(t: Translator, node: exp.Column) -> Value:
    """A column, always with its table's name."""
    require(isinstance(node.this, exp.Identifier) and node.table, "a column of no known table")
    return Value(f"{quote(node.table)}.{quote(node.name)}", t.type_of_column(node.table, node.name.lower()))


@proven(exp.Dot, "this", "expression")
def write_field(t: Translator, node: exp.Dot) -> Value:
    """The field of a struct."""
    struct = t.value(node.this)
    require(isinstance(struct.type, T.StructType), "a field of no struct")
    assert isinstance(struct.type, T.StructType)
    found = [field for field in struct.type.fields if field.name.lower() == node.name.lower()]
    require(len(found) == 1, "no field, or several, of this name")
    return Value(f"struct_extract({struct.sql}, {text_literal(found[0].name)})", found[0].dataType)


@proven(exp.Struct, "expressions")
def write_struct(t: Translator, node: exp.Struct) -> Value:
    """A struct; Spark names a field without a name by its position."""
    fields, parts = list[T.StructField](), list[str]()
    for position, part in enumerate(node.expressions, 1):
        is_named = isinstance(part, exp.PropertyEQ)
        name, inner = (spell(part.this), part.expression) if is_named else (f"col{position}", part)
        # Spark gives it the column's name, sqlglot none
        is_hidden = isinstance(inner, exp.Paren) and isinstance(inner.unnest(), exp.Column | exp.Dot)
        require(not is_hidden, "a column in parentheses")
        value = t.value(inner)
        require(value.type != NOTHING, "a field of no type")
        fields.append(T.StructField(name, value.type))
        parts.append(f"{text_literal(name)}: {value.sql}")
    names = {field.name.lower() for field in fields}
    require(len(names) == len(fields), "two fields of one name")
    return Value(f"{{{', '.join(parts)}}}", T.StructType(fields))


@proven(exp.Array, "expressions")
def write_array(t: Translator, node: exp.Array) -> Value:
    """An array of one type."""
    values = [t.value(part) for part in node.expressions]
    require(values, "an array of no type")
    types = {value.type.simpleString() for value in values}
    require(len(types) == 1 and values[0].type != NOTHING, "an array of several types")
    require_ordered(*(value.type for value in values))
    return Value(f"[{', '.join(value.sql for value in values)}]", T.ArrayType(values[0].type))
