"""Rows have equal bytes when they are equal, and only then: however they lie in memory, and whatever is in them."""

from datetime import date
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cdc.views.refresh.row_bytes import encode_rows

Record = dict[str, object]
TEXTS = st.text(st.sampled_from("a\x00\x01é"), max_size=3)
FLOATS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])
ELEMENTS = st.none() | st.fixed_dictionaries({"n": st.none() | st.integers(0, 1), "t": st.none() | TEXTS})
SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "yes": pa.bool_(),
        "f": pa.float64(),
        "g": pa.float32(),
        "d": pa.decimal128(12, 2),
        "on": pa.date32(),
        "t": pa.string(),
        "b": pa.binary(),
        "numbers": pa.list_(pa.int32()),
        "texts": pa.list_(pa.string()),
        "pair": pa.struct({"n": pa.int64(), "t": pa.string()}),
        "pairs": pa.list_(pa.struct({"n": pa.int64(), "t": pa.string()})),
        "nested": pa.list_(pa.struct({"of": pa.list_(pa.int64())})),
    }
)
VALUES = {
    "n": st.integers(0, 1),
    "yes": st.booleans(),
    "f": FLOATS,
    "g": FLOATS,
    "d": st.sampled_from([Decimal("1.00"), Decimal("-1.00")]),
    "on": st.sampled_from([date(1970, 1, 1), date(1969, 12, 31)]),
    "t": TEXTS,
    "b": st.binary(max_size=2),
    "numbers": st.lists(st.none() | st.integers(0, 1), max_size=2),
    "texts": st.lists(st.none() | TEXTS, max_size=2),
    "pair": ELEMENTS,
    "pairs": st.lists(ELEMENTS, max_size=2),
    "nested": st.lists(st.none() | st.fixed_dictionaries({"of": st.none() | st.lists(st.integers(0, 1), max_size=2)})),
}


@st.composite
def like_rows(draw: st.DrawFn) -> list[Record]:
    """Rows of which most differ from the first one in one column."""
    first: Record = {name: draw(st.none() | values) for name, values in VALUES.items()}
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=8))
    return [first, *({**first, name: draw(st.none() | VALUES[name])} for name in names)]


@given(like_rows())
def test_rows_have_equal_bytes_when_they_are_equal_and_only_then(records: list[Record]) -> None:
    rows = pa.Table.from_pylist(records, SCHEMA)
    encoded = encode_rows(rows)
    # where zeros have a sign, and NaN is NaN
    shown = list(map(repr, rows.to_pylist()))
    for one, of_one in zip(shown, encoded, strict=True):
        for other, of_other in zip(shown, encoded, strict=True):
            assert (one == other) is (of_one == of_other), (one, other)


@given(like_rows(), st.integers(0, 8))
def test_a_row_has_the_same_bytes_wherever_it_lies(records: list[Record], start: int) -> None:
    rows = pa.Table.from_pylist(records, SCHEMA)
    parts = pa.concat_tables([rows.slice(start), rows.slice(0, start)])
    assert encode_rows(parts) == [*encode_rows(rows)[start:], *encode_rows(rows)[:start]]


def test_no_rows_have_no_bytes() -> None:
    assert encode_rows(SCHEMA.empty_table()) == []


def test_numbers_alone_have_bytes_of_one_width() -> None:
    found = encode_rows(pa.table({"n": pa.array([1, None], pa.int64()), "m": pa.array([1, 2], pa.int16())}))
    assert len(set(map(len, found))) == 1
    assert len(set(found)) == 2


def test_a_nan_is_one_whatever_its_bits_are() -> None:
    bits = pa.array([0x7FF8_0000_0000_0000, 0x7FF8_0000_0000_0001, 0x7FF0_0000_0000_0000], pa.int64())
    one, same, infinite = encode_rows(pa.table({"f": bits.view(pa.float64())}))
    assert one == same != infinite
