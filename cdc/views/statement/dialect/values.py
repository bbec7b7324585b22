"""What an expression becomes in DuckDB, and what is said of one that must not go there."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import types as T

from cdc.views.statement.dialect.types import NOTHING, UnorderedArrayType, common_type, duckdb_type


@dataclass(frozen=True, slots=True)
class Value:
    """An expression in DuckDB's SQL, which gives what the user's gives in Spark, and Spark's type of it.

    The SQL's own type is always `duckdb_type(type)`: nothing is left to DuckDB's conversions. `digits`: of an integer
    literal, which Spark takes for a decimal of as many digits beside a decimal; 0 for all others.
    """

    sql: str
    type: T.DataType
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Unproven:
    """An expression that DuckDB may not evaluate: its place in the user's SQL (0 where it is not known), and why."""

    name: str
    line: int
    column: int
    why: str


class NotProvenError(Exception):
    """An expression is not on the list, for the types at hand; `str` says why."""


class PartNotProvenError(Exception):
    """A part of an expression is not on the list, and was already reported."""


def retype(value: Value, to: T.DataType) -> Value:
    """The same value as another type that holds it: for Spark's conversions, which lose nothing."""
    if value.type == to:
        return value
    if isinstance(value.type, T.ArrayType):
        raise NotProvenError(f"{value.type.simpleString()} as {to.simpleString()}")
    return Value(f"CAST({value.sql} AS {duckdb_type(to)})", to)


def unify(*values: Value) -> list[Value]:
    """Values as the one type to which Spark brings them."""
    common: T.DataType = NOTHING
    for value in values:
        found = common_type(common, value.type)
        if found is None:
            raise NotProvenError(f"{common.simpleString()} with {value.type.simpleString()}")
        common = found
    return [retype(value, common) for value in values]


def bound(name: str, value: Value) -> Value:
    """A value by its name in what `bind` writes."""
    return replace(value, sql=f"v.{name}")


def bind(values: Mapping[str, Value], body: str) -> str:
    """Give names to values that a body has more than once, `v.x`; as in `spark.sql`, their own SQL is there once."""
    fields = ", ".join(f"'{name}': {value.sql}" for name, value in values.items())
    return f"list_transform([{{{fields}}}], lambda v: {body})[1]"


def text_literal(text: str) -> str:
    """A text as a literal of DuckDB, which knows no escapes."""
    if "\0" in text:
        raise NotProvenError("a text with NUL")
    return "'" + text.replace("'", "''") + "'"


def require(condition: object, why: str) -> None:
    """Leave an expression off the list unless the condition holds."""
    if not condition:
        raise NotProvenError(why)


def require_ordered(*types: T.DataType) -> None:
    """Leave off what may depend on the order of a `collect_list`."""
    require(not any(isinstance(each, UnorderedArrayType) for each in types), "the order of its elements is not certain")
