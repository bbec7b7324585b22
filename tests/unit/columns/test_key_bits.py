"""Keys as bits: different keys are different bits, whatever their types, and the same key always the same."""

import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.rows.join_fingerprints import comparison_type, join_bits
from cdc.columns.rows.key_fingerprints import key_bits
from cdc.columns.types.arrow_types import arrow_type
from cdc.columns.types.registry import TYPES
from cdc.core.table import Column, Kind

WHOLE = {Kind.SMALLINT: 15, Kind.INTEGER: 31, Kind.BIGINT: 63}
VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    **{kind: st.integers(-(2**bits), 2**bits - 1) for kind, bits in WHOLE.items()},
    Kind.BOOLEAN: st.booleans(),
    Kind.TEXT: st.text(max_size=6),
    Kind.UUID: st.uuids().map(str),
    Kind.DATE: st.dates(),
    Kind.TIMESTAMP: st.datetimes(),
    Kind.DECIMAL: st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-2)),
}


@st.composite
def key_columns(draw: st.DrawFn) -> tuple[list[Column], list[tuple[Any, ...]]]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    columns = [Column(f"k{n}", kind, *((38, 2) if kind is Kind.DECIMAL else ())) for n, kind in enumerate(kinds)]
    rows = draw(st.lists(st.tuples(*(VALUES[kind] for kind in kinds)), max_size=12))
    return columns, rows + rows[:3]


def arrays(columns: list[Column], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([row[n] for row in rows], arrow_type(column)) for n, column in enumerate(columns)]


@given(key_columns())
def test_bits_are_equal_if_and_only_if_keys_are(keys: tuple[list[Column], list[tuple[Any, ...]]]) -> None:
    columns, rows = keys
    pairs = key_bits(columns, arrays(columns, rows)).pairs()
    assert len(set(pairs)) == len(set(rows))
    assert all((pairs[0] == pair) == (rows[0] == row) for pair, row in zip(pairs, rows, strict=True))


@given(key_columns(), st.integers(0, 5))
def test_slice_has_the_same_bits(keys: tuple[list[Column], list[tuple[Any, ...]]], start: int) -> None:
    columns, rows = keys
    whole = arrays(columns, rows)
    assert key_bits(columns, [a.slice(start) for a in whole]).pairs() == key_bits(columns, whole).pairs()[start:]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Kind.BIGINT, -1),
        (Kind.UUID, str(uuid.UUID(int=2**128 - 1))),
        (Kind.TEXT, "🐘"),
        (Kind.DATE, date(1, 1, 1)),
        (Kind.TIMESTAMPTZ, datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ],
)
def test_bits_do_not_depend_on_the_machine_or_the_version(kind: Kind, value: object) -> None:
    """An index that was saved is read by later versions."""
    expected = {
        Kind.BIGINT: (2**64 - 1, 0),
        Kind.UUID: (1956407806741107679, 11310486730904929993),
        Kind.TEXT: (4125185361471007275, 2793123668558420692),
        Kind.DATE: (4294248134, 0),
        Kind.TIMESTAMPTZ: (253402300799999999, 0),
    }
    [found] = key_bits([Column("k", kind)], [pa.array([value], arrow_type(Column("k", kind)))]).pairs()
    assert found == expected[kind]


@pytest.mark.parametrize("kind", [kind for kind, each in TYPES.items() if comparison_type(each.arrow) is not None])
def test_nulls_of_every_type_that_is_joined_have_one_value(kind: Kind) -> None:
    found = join_bits([pa.nulls(2, TYPES[kind].arrow)]).pairs()
    assert found == [(2**64 - 1, 2**64 - 1)] * 2
