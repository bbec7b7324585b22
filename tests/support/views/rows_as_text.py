"""Rows as texts that are equal where Spark's and DuckDB's rows are: a value has one text, whatever its type's width."""

import json
import math
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any, Final

from cdc.views.statement.analysis.list_order import ELEMENT, ListPaths

_NONE: Final[ListPaths] = frozenset()
_ALL_DIGITS: Final = Context(prec=80)


def name_row(row: Mapping[str, object], unordered: Mapping[str, ListPaths]) -> str:
    """A row's text; its lists without an order are sorted, as a view holds them. Nulls are left out, as Spark does."""
    values = {name: name_value(value, unordered.get(name.lower(), _NONE)) for name, value in row.items()}
    return json.dumps({name: value for name, value in values.items() if value is not None}, sort_keys=True)


def read_json(text: str) -> dict[str, Any]:
    """A row that Spark gave as JSON."""
    found: dict[str, Any] = json.loads(text, parse_int=Decimal, parse_float=Decimal)
    return found


def read_values(text: str) -> dict[str, Any]:
    """The values of a row's text, as `name_value` gives them; by names in lower case."""
    return {name.lower(): value for name, value in json.loads(text).items()}


def name_value(value: object, paths: ListPaths = _NONE) -> object:
    """A value that JSON has, the same for all types of numbers; lists at these paths are sorted."""
    match value:
        case None | bool():
            return value
        case list():
            inner = frozenset(path[1:] for path in paths if path and path[0] == ELEMENT)
            values = [name_value(each, inner) for each in value]
            return sorted(values, key=json.dumps) if () in paths else values
        case dict():
            named = {name: name_value(each, _below(paths, name)) for name, each in value.items()}
            return {name: each for name, each in named.items() if each is not None}
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case int() | Decimal() | float():
            return f"#{_shorten(value if isinstance(value, Decimal) else Decimal(repr(value)))}"
        case _:
            return str(value)


def _below(paths: ListPaths, name: str) -> ListPaths:
    return frozenset(path[1:] for path in paths if path and path[0].lower() == name.lower())


def _shorten(value: Decimal) -> str:
    """Zeros of two signs are not equal."""
    return "-0" if value.is_zero() and value.is_signed() else f"{value.normalize(_ALL_DIGITS):f}"
