"""Booleans, integers and floats: what Arrow, Spark and an index have as they are."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.types.copied_fields import Field, to_array, to_texts
from cdc.columns.types.decimals import nearest_doubles, read_numerics
from cdc.columns.types.postgres_type import AS_TEXT, KeyForm, PostgresType, Read, key_of, read_each, read_plain
from cdc.core.table import NUMERIC, Column, Kind

_BOOLEANS: Final = {"t": True, "f": False}
_NOT_FINITE: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def _number(kind: Kind, name: str, arrow: pa.DataType, sent_as: Any, index: str, wire: str) -> PostgresType:
    """`wire`: NumPy's type of the values in a copy."""
    return PostgresType(
        kind,
        names=(name,),
        arrow=arrow,
        sent_as=sent_as,
        from_log=read_plain(arrow),
        # Arrow casts from text exactly, or raises
        from_text=lambda texts, _: pc.cast(pa.array(texts, pa.string()), arrow),
        copied_width=np.dtype(wire).itemsize,
        from_copy=lambda copied, _: to_array(arrow, copied.there, copied.head(wire).astype(wire[-2:])),
        to_json=lambda array: pc.cast(array, pa.string()),
        index={"type": index},
    )


def _float(kind: Kind, name: str, arrow: pa.DataType, index: str, wire: str, read: Read) -> PostgresType:
    return replace(
        _number(kind, name, arrow, float | str, index, wire),
        from_log=read,
        to_json=_write_floats,
        # NaN and infinities are stored but not indexed, so that they do not stop the table
        index={"type": index, "ignore_malformed": True},
        is_comparable=False,
    )


def _copied_booleans(copied: Field, column: Column) -> pa.Array:
    values = copied.head("u1")
    return to_array(pa.bool_(), copied.there, np.packbits(values != 0, bitorder="little"), len(values))


def _read_doubles(values: Sequence[Any], column: Column) -> pa.Array:
    """Convert floats; Debezium sends NaN and infinity as text, since JSON has no such numbers."""
    if str in set(map(type, values)):
        values = [_to_float(value) if isinstance(value, str) else value for value in values]
    return pa.array(values, pa.float64())


def _read_reals(values: Sequence[Any], column: Column) -> pa.Array:
    doubles = _read_doubles(values, column)
    # the cast turns too large numbers into infinity without an error, even with safe=True
    narrow = pc.cast(doubles, pa.float32(), safe=False)
    if pc.any(pc.and_(pc.is_inf(narrow), pc.invert(pc.is_inf(doubles)))).as_py():
        raise ValueError("beyond a real")
    return narrow


def _to_float(text: str) -> float:
    if text not in _NOT_FINITE:
        raise ValueError(f"no number: {text[:20]}")
    return _NOT_FINITE[text]


def _write_floats(array: pa.Array) -> pa.Array:
    """Write floats as numbers; NaN and infinity as strings, since JSON has no such numbers."""
    text = pc.cast(array, pa.string())
    finite = pc.is_finite(array)
    if pc.all(pc.fill_null(finite, True)).as_py():
        return text
    names = pc.if_else(pc.is_nan(array), '"NaN"', pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"'))
    return pc.if_else(finite, text, names)


BOOLEAN: Final = replace(
    _number(Kind.BOOLEAN, "bool", pa.bool_(), bool, "boolean", "u1"),
    from_text=read_each(_BOOLEANS.__getitem__, pa.bool_()),
    from_copy=_copied_booleans,
    key=KeyForm(1, lambda array: np.asarray(array.cast(pa.uint8())).reshape(-1, 1)),
)
SMALLINT: Final = replace(_number(Kind.SMALLINT, "int2", pa.int16(), int, "short", ">i2"), key=key_of(pa.int16()))
INTEGER: Final = replace(_number(Kind.INTEGER, "int4", pa.int32(), int, "integer", ">i4"), key=key_of(pa.int32()))
BIGINT: Final = replace(_number(Kind.BIGINT, "int8", pa.int64(), int, "long", ">i8"), key=key_of(pa.int64()))
# unsigned in Postgres: an oid above 2^31 is no int32
OID: Final = replace(_number(Kind.OID, "oid", pa.int64(), int, "long", ">i8"), selected="{}::bigint")
REAL: Final = _float(Kind.REAL, "float4", pa.float32(), "float", ">f4", _read_reals)
DOUBLE: Final[PostgresType] = replace(
    _float(Kind.DOUBLE, "float8", pa.float64(), "double", ">f8", _read_doubles),
    lines={"by choice as double: numeric": Column("", Kind.DOUBLE, type=NUMERIC, chosen="double")},
    of=lambda column: _NEAREST if column.type == NUMERIC else DOUBLE,
)
_NEAREST: Final[PostgresType] = replace(
    DOUBLE,
    is_out_of_line=True,
    sent_as=str,
    from_log=lambda values, column: nearest_doubles(read_numerics(values, column)),
    selected=AS_TEXT,
    copied_width=0,
    from_copy=lambda copied, _: nearest_doubles(to_texts(copied)),
    exact="the nearest double, of two the even one; what would become infinity is refused",
)
"""A numeric that the user chooses to follow as double."""
