"""Templates of ids and routings: two rows have one text only if the template's columns are equal."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.core.table import Column, Kind
from cdc.sinks.search.templates import Template, find_unfit

PARTS = st.text(alphabet="ab:-%2D3A", max_size=4)


@given(st.lists(st.tuples(PARTS, PARTS), min_size=2, max_size=8, unique=True))
def test_texts_of_different_values_differ(rows: list[tuple[str, str]]) -> None:
    values = pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]}, pa.schema({"a": "string", "b": "string"}))
    for text in ("{a}:{b}", "x{a}-%{b}y", "{b}2D{a}"):
        texts = Template.parse(text).write(values).to_pylist()
        assert len({*texts}) == len(rows)


def test_values_are_written_as_they_are() -> None:
    rows = pa.table(
        {"id": pa.array([1, -2, 3]), "tenant": ["a", None, "x:y"], "day": pa.array([0, 1, None], pa.date32())}
    )
    assert Template.parse("t-{tenant}").write(rows).to_pylist() == ["t-a", "t-", "t-x:y"]
    assert Template.parse("{tenant}:{id}").write(rows).to_pylist() == ["a:1", ":-2", "x%3Ay:3"]
    assert Template.parse("{day}").write(rows).to_pylist() == ["1970-01-01", "1970-01-02", ""]


@pytest.mark.parametrize("text", ["", "tenant", "{tenant", "{}", "{a}{b}", "}{a}"])
def test_a_text_that_is_no_template_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(names|has) "):
        Template.parse(text)


def test_columns_without_one_text_are_unfit() -> None:
    columns = [Column("n", Kind.NUMERIC), Column("id", Kind.BIGINT), Column("tags", Kind.TEXT, array=True)]
    assert find_unfit(columns) == ["n", "tags"]
