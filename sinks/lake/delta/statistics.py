"""A data file's bounds and null counts for the log (Delta protocol, "Per-file Statistics")."""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

MAX_COLUMNS: Final = 32
"""Columns with bounds, key first: the default of `delta.dataSkippingNumIndexedCols`."""
MAX_CHARACTERS: Final = 32
"""Length of a text's bound."""
_MILLISECOND: Final = timedelta(milliseconds=1)
_LAST_CHARACTER: Final = "\U0010ffff"


def choose_columns(names: Iterable[str], key: Iterable[str]) -> list[str]:
    """The columns that get bounds: the key, then the first others."""
    return list(dict.fromkeys([*key, *names]))[:MAX_COLUMNS]


def of_rows(rows: pa.Table, columns: Iterable[str]) -> dict[str, Any]:
    """The statistics of rows: number of records, and nulls and bounds of these columns."""
    stats: dict[str, Any] = {"numRecords": rows.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name in columns:
        column = rows[name]
        # a struct's counts would be those of its fields
        if pa.types.is_struct(column.type):
            continue
        stats["nullCount"][name] = column.null_count
        _set_bounds(stats, name, column)
    return stats


def merge(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the statistics of a file's parts."""
    first, *others = parts
    merged = json.loads(json.dumps(first))
    for part in others:
        # bounds before counts: `_merge_bounds` uses the counts to tell a part without values
        for name in part["nullCount"]:
            _merge_bounds(merged, part, name)
        for name, nulls in part["nullCount"].items():
            merged["nullCount"][name] += nulls
        merged["numRecords"] += part["numRecords"]
    return dict(merged)


def to_json(stats: Mapping[str, Any]) -> str:
    return json.dumps(stats, separators=(",", ":"), ensure_ascii=False)


def _set_bounds(stats: dict[str, Any], name: str, column: pa.ChunkedArray) -> None:
    """Set the bounds if all readers order this type and these values alike."""
    # a column of nulls has no bounds
    if column.null_count == len(column) or not _is_ordered(column.type):
        return
    # Arrow's bounds ignore NaN, which Spark orders above all numbers: it would skip the file wrongly
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return
    bounds = pc.min_max(column)
    try:
        lowest, highest = _lower(bounds["min"].as_py()), _upper(bounds["max"].as_py())
    except (ValueError, OverflowError):
        return
    if lowest is not None and highest is not None:
        stats["minValues"][name], stats["maxValues"][name] = lowest, highest


def _is_ordered(kind: pa.DataType) -> bool:
    ordered = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_date)
    return any(test(kind) for test in (*ordered, pa.types.is_timestamp, pa.types.is_decimal))


def _lower(value: Any) -> Any:
    match value:
        case datetime():
            # the log has milliseconds ("Per-file Statistics"): round the lower bound down, the upper one up
            return _moment(value.replace(microsecond=value.microsecond // 1000 * 1000))
        case str():
            return value[:MAX_CHARACTERS]
        case _:
            return _plain(value)


def _upper(value: Any) -> Any:
    """An upper bound of the value: compensates for a cut end."""
    match value:
        case datetime():
            cut = value.replace(microsecond=value.microsecond // 1000 * 1000)
            return _moment(cut if cut == value else cut + _MILLISECOND)
        case str():
            # append one more U+10FFFF than the cut rest begins with
            rest = value[MAX_CHARACTERS:]
            last = len(rest) - len(rest.lstrip(_LAST_CHARACTER))
            return value[:MAX_CHARACTERS] + _LAST_CHARACTER * (last + 1) if rest else value
        case _:
            return _plain(value)


def _plain(value: Any) -> Any:
    match value:
        case date():
            return value.isoformat()
        case Decimal():
            # readers parse a double, whose shortest exact form is its repr: no bound where that is another number
            return float(value) if Decimal(repr(float(value))) == value else None
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value


def _moment(value: datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return text if value.tzinfo is None else f"{text}Z"


def _merge_bounds(merged: dict[str, Any], part: Mapping[str, Any], name: str) -> None:
    """Merge both sides' bounds; drop them when one side has values and no bounds."""
    for side, pick in (("minValues", min), ("maxValues", max)):
        bounds = [s[side][name] for s in (merged, part) if name in s[side]]
        unbounded = [s for s in (merged, part) if name not in s[side] and s["nullCount"][name] < s["numRecords"]]
        if unbounded or not bounds:
            merged[side].pop(name, None)
        else:
            merged[side][name] = pick(bounds)
