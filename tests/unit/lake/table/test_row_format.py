"""Rows in bytes: what was written is read, any damage is found."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.sinks.lake.table.row_format import CHECKSUM, Bytes, DamagedRowsError, RowFormat, expand, is_storable

SCHEMA = pa.schema(
    {
        "b": pa.bool_(),
        "i": pa.int32(),
        "t": pa.string(),
        "d": pa.decimal128(38, 2),
        "f": pa.float64(),
        "x": pa.binary(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
    }
)
FORMAT = RowFormat(SCHEMA)
VALUES = st.fixed_dictionaries(
    {
        "b": st.none() | st.booleans(),
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "t": st.none() | st.text(max_size=5),
        "d": st.none() | st.decimals(-(10**6), 10**6, places=2),
        "f": st.none() | st.floats(allow_nan=False),
        "x": st.none() | st.binary(max_size=5),
        "day": st.none() | st.dates(date(1, 1, 1)),
        "at": st.none() | st.datetimes(timezones=st.just(UTC)),
    }
)
ROWS = st.lists(VALUES, min_size=1, max_size=20).map(lambda rows: pa.Table.from_pylist(rows, SCHEMA))


def read(records: Bytes, heap: Bytes, numbers: list[int], names: list[str], first: int = 0) -> pa.Table:
    """Read some rows as a file would be read."""
    own = records[np.array(numbers, np.int64) - first]
    texts = heap[expand(FORMAT.places(own), FORMAT.lengths(own).sum(axis=1))]
    return FORMAT.decode(own, texts, np.array(numbers), names)


@given(ROWS, st.data())
def test_any_rows_are_read_as_they_were_written(rows: pa.Table, data: st.DataObject) -> None:
    # a slice shares the buffers of the whole
    rows = rows.slice(data.draw(st.integers(0, rows.num_rows - 1)))
    records, heap = FORMAT.encode(rows, 0, 0)
    numbers = data.draw(st.lists(st.integers(0, rows.num_rows - 1), max_size=10))
    names = data.draw(st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True))
    assert (
        read(records, heap, numbers, names).to_pylist()
        == rows.take(pa.array(numbers, pa.int64())).select(names).to_pylist()
    )


@given(ROWS, st.data())
def test_any_changed_byte_is_found(rows: pa.Table, data: st.DataObject) -> None:
    records, heap = FORMAT.encode(rows, 0, 0)
    number = data.draw(st.integers(0, rows.num_rows - 1))
    place, flip = data.draw(st.integers(0, FORMAT.width - 1)), data.draw(st.integers(1, 255))
    # lengths and places lead elsewhere before a checksum is asked: the file checks them against its size
    end = FORMAT.width - 8 - 4 * len(FORMAT.texts)
    if place >= end:
        return
    records[number, place] ^= flip
    with pytest.raises(DamagedRowsError):
        read(records, heap, [number], ["i"])


def test_changed_texts_and_rows_in_each_others_places_are_found() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    row = {"b": True, "i": 1, "t": "abc", "d": Decimal("1.25"), "f": 0.5, "x": b"x", "day": date(2026, 1, 1), "at": at}
    records, heap = FORMAT.encode(pa.Table.from_pylist([row, {**row, "i": 2}], SCHEMA), 7, 0)
    assert read(records, heap, [8], ["i"], first=7).to_pylist() == [{"i": 2}]
    with pytest.raises(DamagedRowsError):
        FORMAT.decode(records[[1]], heap[4:], np.array([7]), ["i"])
    heap[1] ^= 1
    with pytest.raises(DamagedRowsError):
        read(records, heap, [7], ["i"], first=7)
    assert CHECKSUM + FORMAT.null_bytes < FORMAT.width


def test_lists_and_structs_are_not_storable() -> None:
    assert all(is_storable(field.type) for field in SCHEMA)
    assert not is_storable(pa.list_(pa.int32()))
    assert not is_storable(pa.struct({"a": pa.int32()}))
