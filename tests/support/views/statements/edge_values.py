"""Values at the edges of every type that tables have."""

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from itertools import product

import pyarrow as pa

from cdc.columns.types.arrow_types import arrow_schema
from cdc.columns.types.moments import days_of
from cdc.core.table import Column, Kind, Table, TableName

Values = Sequence[object]

INF, NAN = float("inf"), float("nan")
_DAY = 86_400_000_000
_DAYS = [
    *(days_of(*day) for day in ((1, 1, 1), (4, 2, 29), (1582, 10, 4), (1582, 10, 15), (1900, 3, 1), (1969, 12, 31))),
    *(days_of(*day) for day in ((1970, 1, 1), (2020, 2, 29), (2020, 12, 31), (2021, 1, 3), (2021, 1, 31))),
    *(days_of(*day) for day in ((2024, 8, 31), (9999, 12, 31), (10_000, 1, 1), (0, 12, 31), (-43, 3, 15))),
]
_MOMENTS = [
    *(day * _DAY for day in _DAYS),
    *(day * _DAY - 1 for day in _DAYS),
    0,
    -1,
    1,
    999_999,
    -1_500_000,
    1_709_210_096_789_012,
    1_709_164_800_500_000,
]
_TEXTS = [
    *("", " ", "a", "A", "abc", "abcdef", "  ab  ", "ab ", " ab", "\tab\n", "\u00a0ab\u00a0", "it's", '"', "\\", "%"),
    *("a%b_c", "a\\%b", "e\u0301", "\u00e9", "\u00df", "\u0130", "\u0131", "\u03a3", "o\u03a3", "\U0001f600"),
    *("\U0001f468\u200d\U0001f469\u200d\U0001f467", "\uffff", "\U0010ffff", "\ufb01", "x" * 3000, "0", "1", "-12"),
    *(" 7", "007", "1.5", "1e3", "12345678901", "9223372036854775808", "NaN", "true", "null", "2020-01-31"),
    *("2020-02-30", "9999-12-31", "2020-1-1", "2020-01-31 10:11:12.5", "2020-01-31 24:00:00", "2020-01-31T10:11:12"),
]
_DOUBLES = [
    *(NAN, 0.0, -0.0, INF, -INF, 0.5, 1.5, 2.5, -0.5, -2.5, -0.3, 0.1, 0.49999999999999994, 1e308, -1e308, 5e-324),
    *(2.0**53, 2.0**53 + 2, 4503599627370497.5, 9.3e18, -1e19, 2147483647.5, -2147483648.9, 32767.9, 7.0, 3.0, -7.25),
]
_REALS = [NAN, 0.0, -0.0, INF, -INF, 0.5, 1.5, -2.5, 3.4028234663852886e38, 1e-45, 7.0, 2147483648.0, 16777216.0]


def _integers(bits: int, *others: int) -> list[int]:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return [least, least + 1, -7, -2, -1, 0, 1, 2, 3, 7, 10, 100, most - 1, most, *others]


def _decimals(precision: int, scale: int) -> list[Decimal]:
    most = 10**precision - 1
    unit = 10**scale
    digits = {0, 1, -1, most, -most, most // 2, most // 3, -most // 7, unit, -unit, 3 * unit, 5 * unit // 2, unit // 2}
    digits |= {-unit // 2, 125 * unit // 100, 135 * unit // 100, -145 * unit // 100, 7 * unit, unit // 3}
    return [Decimal(each).scaleb(-scale, Context(prec=60)) for each in sorted(digits) if abs(each) <= most]


EDGES: Mapping[str, tuple[Column, Values]] = {
    "boolean": (Column("", Kind.BOOLEAN), [True, False]),
    "smallint": (Column("", Kind.SMALLINT), _integers(16)),
    "integer": (Column("", Kind.INTEGER), _integers(32, 2024, 31, -400)),
    "bigint": (Column("", Kind.BIGINT), _integers(64, 2**53, 2**53 + 1, -(2**53) - 1, 2**31, 10**15 + 1)),
    "real": (Column("", Kind.REAL), _REALS),
    "double": (Column("", Kind.DOUBLE), _DOUBLES),
    "decimal(4,4)": (Column("", Kind.DECIMAL, 4, 4), _decimals(4, 4)),
    "decimal(5,2)": (Column("", Kind.DECIMAL, 5, 2), _decimals(5, 2)),
    "decimal(10,0)": (Column("", Kind.DECIMAL, 10, 0), _decimals(10, 0)),
    "decimal(12,2)": (Column("", Kind.DECIMAL, 12, 2), _decimals(12, 2)),
    "decimal(18,6)": (Column("", Kind.DECIMAL, 18, 6), _decimals(18, 6)),
    "decimal(38,0)": (Column("", Kind.DECIMAL, 38, 0), _decimals(38, 0)),
    "decimal(38,18)": (Column("", Kind.DECIMAL, 38, 18), _decimals(38, 18)),
    "text": (Column("", Kind.TEXT), _TEXTS),
    "bytes": (Column("", Kind.BYTES), [b"", b"\0", b"a", b"A", b"abc", b"\xff\xfe", b"\x7f\x80", b"a\0b"]),
    "date": (Column("", Kind.DATE), _DAYS),
    "timestamp": (Column("", Kind.TIMESTAMP), _MOMENTS),
    "timestamptz": (Column("", Kind.TIMESTAMPTZ), _MOMENTS),
    "integer[]": (
        Column("", Kind.INTEGER, array=True),
        [[], [None], [1, None, 3], [3, 1, 2, 1], [2**31 - 1, -(2**31)], [None, None, 7], [7, 7]],
    ),
    "text[]": (
        Column("", Kind.TEXT, array=True),
        [[], [None], ["b", None, "a"], ["\uffff", "\U0010ffff", "", " "], ["a", "A", "e\u0301", "\u00e9"]],
    ),
}
"""Per type, the column and its values; null is one of each type's, too. Dates and moments are numbers, as in Arrow."""

MOST = {1: 1000, 2: 18, 3: 9}
"""Values of each argument, of so many arguments: all combinations of them are tried."""


def edge_table(types: Sequence[str]) -> tuple[Table, pa.Table]:
    """A table `t` of columns a, b, c of these types: a row for every combination of their values, and its number."""
    of = [EDGES[each] for each in types]
    names = "abc"[: len(of)]
    values = [[None, *_spread(found, MOST[len(of)])] for _, found in of]
    rows = list(product(*values))
    columns = [_named(column, name) for name, (column, _) in zip(names, of, strict=True)]
    table = Table(TableName("public", "t"), (Column("n", Kind.INTEGER), *columns), ("n",))
    schema = arrow_schema(table)
    arrays = [to_array([row[at] for row in rows], schema.field(name).type) for at, name in enumerate(names)]
    return table, pa.Table.from_arrays([pa.array(range(len(rows)), pa.int32()), *arrays], schema=schema)


def _spread(values: Values, most: int) -> Values:
    """So many of the values at most, from all over them, the first and the last among them."""
    step = max((len(values) - 1) / (most - 1), 1.0)
    return [values[round(at * step)] for at in range(min(most, len(values)))]


def _named(column: Column, name: str) -> Column:
    return Column(name, column.kind, column.precision, column.scale, column.array)


def to_array(values: Values, of: pa.DataType) -> pa.Array:
    """Values as an Arrow array; days and microseconds may lie beyond Python's years."""
    if pa.types.is_date32(of):
        return pa.array(values, pa.int32()).cast(of)
    return pa.array(values, pa.int64()).cast(of) if pa.types.is_timestamp(of) else pa.array(values, of)
