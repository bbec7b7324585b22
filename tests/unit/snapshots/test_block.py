"""Rows of `COPY (FORMAT binary)`, encoded here one by one as the manual says it, come back as Arrow's columns."""

import struct
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.types.decimals import LONGEST_WHOLE
from cdc.core.errors import PreconditionError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.snapshots.copy_reader import BlockReader

NUMBERS = {Kind.SMALLINT: ">h", Kind.INTEGER: ">i", Kind.BIGINT: ">q", Kind.DOUBLE: ">d", Kind.DATE: ">i"}
SINCE_1970 = {Kind.DATE: 10_957, Kind.TIMESTAMP: 946_684_800_000_000}
PATTERNS = (b"\xff" * 8, b"\x00\x05" + b"\xff" * 8, b"\x00\x04" + b"\xff" * 8 + b"\x00\x00\x00\x08")


def numeric(value: Decimal) -> bytes:
    """The value as `numeric_send` in Postgres' numeric.c: groups of four digits, the first one's power of 10,000."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rjust(-exponent + 1, "0")
    whole, fraction = (text[:exponent], text[exponent:]) if exponent else (text, "")
    whole, fraction = whole.rjust(-(-len(whole) // 4) * 4, "0"), fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + fraction)[at : at + 4]) for at in range(0, len(whole + fraction), 4)]
    weight = len(whole) // 4 - 1
    while groups and not groups[0]:
        groups, weight = groups[1:], weight - 1
    while groups and not groups[-1]:
        groups = groups[:-1]
    return struct.pack(f">hhHh{len(groups)}h", len(groups), weight, 0x4000 * sign, -exponent, *groups)


def sent(column: Column, value: Any) -> bytes:
    """A value as Postgres sends it for this column."""
    if column.kind is Kind.DECIMAL:
        return numeric(value) if column.precision <= LONGEST_WHOLE else str(value).encode()
    if column.kind is Kind.BOOLEAN:
        return bytes([value])
    if column.kind is Kind.TIMESTAMP:
        return struct.pack(">q", value)
    if column.kind in NUMBERS:
        return struct.pack(NUMBERS[column.kind], value)
    return value if isinstance(value, bytes) else str(value).encode()


def encoded(table: Table, rows: Sequence[dict[str, Any]]) -> bytes:
    content = b""
    for row in rows:
        content += struct.pack(">h", len(table.columns))
        for column in table.columns:
            value = row[column.name]
            data = b"" if value is None else sent(column, value)
            content += struct.pack(">i", -1 if value is None else len(data)) + data
    return content


def decoded(table: Table, content: bytes) -> pa.RecordBatch:
    found = BlockReader(table).batch([content])
    found.validate(full=True)
    return found


def held(column: Column, value: Any) -> Any:
    """A value as the Arrow array has it, in Arrow's own numbers."""
    return value + SINCE_1970.get(column.kind, 0) if column.kind in SINCE_1970 and value is not None else value


def as_python(column: Column, values: pa.Array) -> list[Any]:
    if column.kind is Kind.DATE:
        values = values.cast(pa.int32())
    found: list[Any] = (values.cast(pa.int64()) if column.kind is Kind.TIMESTAMP else values).to_pylist()
    return found


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


LARGE = Context(prec=60)


def decimals(column: Column) -> st.SearchStrategy[Decimal]:
    limit = 10**column.precision - 1
    return st.integers(-limit, limit).map(lambda number: Decimal(number).scaleb(-column.scale, LARGE))


BINARY = st.binary(max_size=30) | st.sampled_from(PATTERNS) | st.binary(max_size=9).map(lambda some: PATTERNS[0] + some)
VALUES = {
    Kind.BOOLEAN: st.booleans(),
    Kind.SMALLINT: integers(16),
    Kind.INTEGER: integers(32),
    Kind.BIGINT: integers(64) | st.sampled_from([-1, 5, 4]),
    Kind.DOUBLE: st.floats(allow_nan=False),
    Kind.TEXT: st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40),
    Kind.BYTES: BINARY,
    Kind.DATE: st.integers(-2_451_545, 2_000_000_000),
    Kind.TIMESTAMP: st.integers(-211_813_488_000_000_000, 9_222_422_400_000_000_000),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, list[dict[str, Any]]]:
    """A table, and rows of it."""
    kinds = draw(st.lists(st.sampled_from([*VALUES, Kind.DECIMAL]), min_size=1, max_size=6))
    columns = tuple(_column(draw, f"c{n}", kind) for n, kind in enumerate(kinds))
    of = {column.name: decimals(column) if column.kind is Kind.DECIMAL else VALUES[column.kind] for column in columns}
    row = st.fixed_dictionaries({name: st.none() | values for name, values in of.items()})
    return Table(TableName("public", "t"), columns, ("c0",)), draw(st.lists(row, max_size=12))


def _column(draw: st.DrawFn, name: str, kind: Kind) -> Column:
    if kind is not Kind.DECIMAL:
        return Column(name, kind)
    precision = draw(st.integers(1, 38))
    return Column(name, kind, precision, draw(st.integers(0, precision)))


@given(tables(), st.integers(0, 12))
def test_rows_are_parsed(drawn: tuple[Table, list[dict[str, Any]]], cut: int) -> None:
    table, rows = drawn
    # block by block: a value that is NULL in the first one is looked for in the second, too
    reader = BlockReader(table)
    blocks = [reader.batch([encoded(table, part)]) for part in (rows[:cut], rows[cut:])]
    found = pa.Table.from_batches(blocks)
    found.validate(full=True)
    for column, values in zip(table.columns, found.columns, strict=True):
        assert as_python(column, values) == [held(column, row[column.name]) for row in rows]


ONE = Table(TableName("public", "t"), (Column("id", Kind.BIGINT), Column("v", Kind.BYTES)), ("id",))


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (Kind.DATE, struct.pack(">i", 3_700_000), "where k = 12130-04-04 →"),
        (Kind.TEXT, b"two\nlines", r"where k = 'two\\nlines' →"),
        (Kind.TEXT, b"x" * 1000, "where k = x{80} →"),
        (Kind.BYTES, b"\xff", r"where k = b'\\xff' →"),
    ],
)
def test_error_names_the_row_by_any_key(key: Kind, value: bytes, told: str) -> None:
    table = Table(TableName("public", "t"), (Column("v", Kind.DATE), Column("k", key)), ("k",))
    endless = struct.pack(">i", 2**31 - 1)
    row = struct.pack(">h", 2) + struct.pack(">i", 4) + endless + struct.pack(">i", len(value)) + value
    with pytest.raises(PreconditionError, match=told):
        decoded(table, row)


def test_value_that_looks_like_rows_is_no_row() -> None:
    inner = encoded(ONE, [{"id": 7, "v": b"inner"}, {"id": 8, "v": None}])
    rows: list[dict[str, Any]] = [
        {"id": 1, "v": inner},
        {"id": 2, "v": inner[3:]},
        {"id": 3, "v": inner[:-5]},
        {"id": 4, "v": None},
    ]
    assert decoded(ONE, encoded(ONE, rows)).to_pylist() == rows


@pytest.mark.parametrize("lengths", [(2, -1), (8, -5), (-5, -1), (8, 2**31 - 1), (2**31 - 1, -1)])
def test_damaged_bytes_raise(lengths: tuple[int, int]) -> None:
    # behind a row with NULL in a column of one length, which is looked for value by value from then on
    content = encoded(ONE, [{"id": None, "v": None}, {"id": 1, "v": None}])
    key, value = lengths
    damaged = struct.pack(">hi", 2, key) + bytes(max(0, min(key, 8))) + struct.pack(">i", value)
    for before in (b"", content):
        with pytest.raises(ValueError, match="no rows of 2 columns"):
            decoded(ONE, before + damaged)


def test_numeric_shorter_than_its_header_raises() -> None:
    table = Table(TableName("public", "t"), (Column("id", Kind.BIGINT), Column("v", Kind.DECIMAL, 9, 2)), ("id",))
    short = struct.pack(">hiqi", 2, 8, 1, 8) + struct.pack(">hhHh", 3000, 0, 0, 2)
    with pytest.raises(ValueError, match="no numerics"):
        decoded(table, short)


@pytest.mark.parametrize("cut", [1, 5, 11, 20])
def test_truncated_rows_raise(cut: int) -> None:
    content = encoded(ONE, [{"id": 1, "v": b"first"}, {"id": 2, "v": b"second"}])
    for part in (content[:-cut], content[cut:]):
        with pytest.raises(ValueError, match="no rows of 2 columns"):
            decoded(ONE, part)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (Column("v", Kind.DATE), struct.pack(">i", 2**31 - 1)),
        (Column("v", Kind.DATE), struct.pack(">i", -(2**31))),
        (Column("v", Kind.TIMESTAMP), struct.pack(">q", -(2**63))),
        (Column("v", Kind.TIMESTAMPTZ), struct.pack(">q", 2**63 - 1)),
        (Column("v", Kind.DECIMAL, 9, 2), struct.pack(">hhHh", 0, 0, 0xC000, 0)),
        (Column("v", Kind.DECIMAL, 38, 2), b"NaN"),
    ],
)
def test_error_describes_the_unsupported_value(column: Column, value: bytes) -> None:
    table = Table(TableName("public", "t"), (Column("id", Kind.BIGINT), column), ("id",))
    head = ">hiqi"
    fine = [struct.pack(head, 2, 8, row, -1) for row in range(6)]
    unfit = struct.pack(head, 2, 8, 7, len(value)) + value
    told = r"public\.t: column v holds .*, which followers cannot hold, where id = 7 →"
    for content in ([unfit], [*fine, unfit], [unfit, *fine], [*fine[:3], unfit, *fine]):
        with pytest.raises(PreconditionError, match=told):
            decoded(table, b"".join(content))
