"""Values as Postgres writes them are read as they are, or refused."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.rows.documents import documents
from cdc.columns.types.array_texts import elements
from cdc.columns.types.registry import type_of
from cdc.core.table import Column, Kind, Table, TableName

texts = st.one_of(st.none(), st.text(), st.sampled_from(["NULL", "null", "", " ", "{}", '"', "\\", ",", "a,b", "{a}"]))


def written(element: str | None) -> str:
    """An element of an array as `array_out` writes it (Postgres source, arrayfuncs.c)."""
    if element is None:
        return "NULL"
    special = element == "" or element.upper() == "NULL" or any(c in '{}",\\' or c.isspace() for c in element)
    escaped = element.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if special else element


@given(st.lists(texts))
def test_arrays_are_parsed(values: list[str | None]) -> None:
    text = "{" + ",".join(map(written, values)) + "}"
    assert elements(text) == values


@pytest.mark.parametrize("text", ["[2:3]={1,2}", "{{1,2},{3,4}}", "[0:0]={{1}}"])
def test_array_with_other_dimensions_or_bounds_raises(text: str) -> None:
    with pytest.raises(ValueError, match="array"):
        elements(text)


def test_boxes_are_separated_by_semicolons() -> None:
    assert elements("{(1,1),(0,0);(2,2),(1,1)}", ";") == ["(1,1),(0,0)", "(2,2),(1,1)"]


@pytest.mark.parametrize(
    ("kind", "written", "document"),
    [
        (Kind.BOOLEAN, "{t,f,NULL}", "[true,false,null]"),
        (Kind.BIGINT, "{9223372036854775807}", "[9223372036854775807]"),
        (Kind.DOUBLE, "{0.1,NaN,-Infinity}", '[0.1,"NaN","-Infinity"]'),
        (Kind.NUMERIC, "{1.10,NaN}", '["1.10","NaN"]'),
        (Kind.DECIMAL, '{1.10,"-$1,234.50"}', '["1.10","-1234.50"]'),
        (Kind.TEXT, '{"a b",""}', '["a b",""]'),
        (Kind.BYTES, '{"\\\\xdead","\\\\x"}', '["3q0=",""]'),
        (Kind.DATE, '{2020-02-29,"0044-03-15 BC"}', '["2020-02-29","-0043-03-15"]'),
        (Kind.TIME, "{24:00:00,12:34:56.7}", '["24:00:00.000000","12:34:56.700000"]'),
        (Kind.TIMESTAMP, '{"2020-01-01 00:00:00.5"}', '["2020-01-01T00:00:00.500000"]'),
        (Kind.TIMESTAMPTZ, '{"2020-01-01 00:00:00+02:30"}', '["2019-12-31T21:30:00.000000Z"]'),
        (Kind.INTERVAL, '{"1 day","-1 mons"}', '["P1D","P-1M"]'),
        (Kind.TEXT, "{}", "[]"),
    ],
)
def test_elements_have_the_columns_kind(kind: Kind, written: str, document: str) -> None:
    column = Column("c", kind, 9 if kind is Kind.DECIMAL else 0, 2 if kind is Kind.DECIMAL else 0, array=True)
    assert read(column, [written, None]) == [f'{{"c":{document}}}', '{"c":null}']


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.DATE, "infinity"),
        (Kind.TIMESTAMPTZ, "-infinity"),
        (Kind.TIMESTAMP, "294276-12-31 00:00:00"),
        (Kind.DECIMAL, "NaN"),
        (Kind.INTERVAL, "infinity"),
        (Kind.DATE, "x"),
    ],
)
def test_what_followers_cannot_hold_is_refused(kind: Kind, text: str) -> None:
    with pytest.raises(ValueError, match=r"infinity|NaN|294246|no date"):
        from_text([None, text], Column("c", kind, 9, 2))


def from_text(texts: list[str | None], column: Column) -> pa.Array:
    return type_of(column).from_text(texts, column)


def read(column: Column, values: list[str | None]) -> list[Any]:
    table = Table(TableName("public", "t"), (column,), ())
    found: list[Any] = documents(pa.table({"c": from_text(values, column)}), table).to_pylist()
    return found
