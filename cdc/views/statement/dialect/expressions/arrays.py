"""Functions of arrays."""

from pyspark.sql import types as T
from sqlglot import exp

from cdc.views.statement.dialect.registry import proven
from cdc.views.statement.dialect.translator import Translator
from cdc.views.statement.dialect.types import BOOLEAN, is_identified
from cdc.views.statement.dialect.values import Value, require


def _array(value: Value) -> T.ArrayType:
    require(isinstance(value.type, T.ArrayType), f"of {value.type.simpleString()}")
    assert isinstance(value.type, T.ArrayType)
    return value.type


@proven(exp.ArrayContains, "this", "expression", "ensure_variant", "check_null")
def write_contains(t: Translator, node: exp.ArrayContains) -> Value:
    """`array_contains(x, y)`: unknown where it is not found, but a null is."""
    value, sought = t.value(node.this), t.value(node.expression)
    element = _array(value).elementType
    require(element == sought.type and is_identified(element), f"of {sought.type.simpleString()}")
    return Value(f"spark_array_contains({value.sql}, {sought.sql})", BOOLEAN)


@proven(exp.ArraySort, "this", "asc", "nulls_first")
def write_sort(t: Translator, node: exp.ArraySort) -> Value:
    """`sort_array(x, ascending)` and `array_sort(x)`: they make an order certain."""
    value = t.value(node.this)
    is_ascending, nulls_first = _flag(node, "asc", True), _flag(node, "nulls_first", True)
    element = _array(value).elementType
    order = f"'{'ASC' if is_ascending else 'DESC'}', 'NULLS {'FIRST' if nulls_first else 'LAST'}'"
    if isinstance(element, T.StructType):
        require(nulls_first == is_ascending, "array_sort of structs")
        return Value(_sort_structs(value.sql, element, order), T.ArrayType(element))
    require(is_identified(element), f"of {element.simpleString()}")
    return Value(f"list_sort({value.sql}, {order})", T.ArrayType(element))


def _flag(node: exp.Expr, name: str, default: bool) -> bool:
    flag = node.args.get(name)
    require(flag is None or isinstance(flag, exp.Boolean), "in an order that a column gives")
    return bool(flag.this) if isinstance(flag, exp.Boolean) else default


def _sort_structs(array: str, of: T.StructType, order: str) -> str:
    """A null field is the least in Spark, the largest in DuckDB: beside each field goes whether it is there."""
    require(all(is_identified(field.dataType) for field in of.fields), "of structs of these types")
    parts = list[str]()
    for number, field in enumerate(of.fields):
        name = "'" + field.name.replace("'", "''") + "'"
        value = f"struct_extract(each, {name})"
        parts.append(f"'there{number}': {value} IS NOT NULL, 'value{number}': {value}")
    key = f"CASE WHEN each IS NULL THEN NULL ELSE {{{', '.join(parts)}, 'row': each}} END"
    ordered = f"list_sort(list_transform({array}, lambda each: {key}), {order})"
    return f"list_transform({ordered}, lambda each: struct_extract(each, 'row'))"
