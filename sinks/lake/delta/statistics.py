"""Bounds and null counts of a data file, as the log carries them (Delta protocol, "Per-file Statistics")."""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

COLUMNS: Final = 32
"""Columns that have bounds, the key's and then the first: what `delta.dataSkippingNumIndexedCols` is by default."""
CHARACTERS: Final = 32
"""How much of a text is kept as its bound."""
_MILLISECOND: Final = timedelta(milliseconds=1)
_LAST_CHARACTER: Final = "\U0010ffff"


def indexed(names: Iterable[str], key: Iterable[str]) -> list[str]:
    """The columns that have bounds."""
    return list(dict.fromkeys([*key, *names]))[:COLUMNS]


def of_rows(rows: pa.Table, columns: Iterable[str]) -> dict[str, Any]:
    """The statistics of these rows: number of records, and for these columns nulls and bounds."""
    found: dict[str, Any] = {"numRecords": rows.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name in columns:
        column = rows[name]
        found["nullCount"][name] = column.null_count
        _bound(found, name, column)
    return found


def together(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The statistics of one file from those of its parts."""
    first, *others = parts
    found = json.loads(json.dumps(first))
    for part in others:
        # before nulls and records are added up: by those, `_widen` tells a side without values
        for name in part["nullCount"]:
            _widen(found, part, name)
        for name, nulls in part["nullCount"].items():
            found["nullCount"][name] += nulls
        found["numRecords"] += part["numRecords"]
    return dict(found)


def as_text(found: Mapping[str, Any]) -> str:
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def _bound(found: dict[str, Any], name: str, column: pa.ChunkedArray) -> None:
    """Set the bounds, where the column has a type and values that are ordered alike by every reader."""
    if column.null_count == len(column) or not _is_ordered(column.type):
        return
    # Arrow's bounds pass over NaN, to Spark the largest number: it would skip a file that has what it looks for
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return
    bounds = pc.min_max(column)
    try:
        lowest, highest = _lower(bounds["min"].as_py()), _upper(bounds["max"].as_py())
    except (ValueError, OverflowError):
        return
    if lowest is not None and highest is not None:
        found["minValues"][name], found["maxValues"][name] = lowest, highest


def _is_ordered(kind: pa.DataType) -> bool:
    ordered = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_date)
    return any(test(kind) for test in (*ordered, pa.types.is_timestamp, pa.types.is_decimal))


def _lower(value: Any) -> Any:
    match value:
        case datetime():
            # the log has milliseconds ("Per-file Statistics"): the lowest is rounded down, the highest up
            return _moment(value.replace(microsecond=value.microsecond // 1000 * 1000))
        case str():
            return value[:CHARACTERS]
        case _:
            return _plain(value)


def _upper(value: Any) -> Any:
    """At least the value: what is cut off is made up for."""
    match value:
        case datetime():
            cut = value.replace(microsecond=value.microsecond // 1000 * 1000)
            return _moment(cut if cut == value else cut + _MILLISECOND)
        case str():
            # the last character there is, once more than the rest begins with it
            rest = value[CHARACTERS:]
            last = len(rest) - len(rest.lstrip(_LAST_CHARACTER))
            return value[:CHARACTERS] + _LAST_CHARACTER * (last + 1) if rest else value
        case _:
            return _plain(value)


def _plain(value: Any) -> Any:
    match value:
        case date():
            return value.isoformat()
        case Decimal():
            return _exact(value)
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value


def _exact(value: Decimal) -> float | None:
    """The decimal as a JSON number, if a double holds it: readers go through one."""
    return float(value) if Decimal(repr(float(value))) == value else None


def _moment(value: datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return text if value.tzinfo is None else f"{text}Z"


def _widen(found: dict[str, Any], part: Mapping[str, Any], name: str) -> None:
    """Bounds over both; none where one side has values and no bounds."""
    for side, pick in (("minValues", min), ("maxValues", max)):
        bounds = [s[side][name] for s in (found, part) if name in s[side]]
        unbounded = [s for s in (found, part) if name not in s[side] and s["nullCount"][name] < s["numRecords"]]
        if unbounded or not bounds:
            found[side].pop(name, None)
        else:
            found[side][name] = pick(bounds)
