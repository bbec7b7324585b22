"""A name in Debezium's lists matches itself only, whatever characters it has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.connect.capture.name_patterns import key_patterns, table_pattern
from cdc.core.table import TableName
from tests.unit.connect.debezium_keys import read_key, read_tables

# as in Postgres: no NUL, and not empty
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
ODD = ["a,b", "a:b", "a;b", "a b ", " a", "a.b", "a.*", "(a", "a\\", "a\nb", "${file:/etc:x}", "[a]", "ü🐘", "a-b", "A"]


@pytest.mark.parametrize("name", ODD)
def test_table_of_an_odd_name_is_in_the_list_and_no_other(name: str) -> None:
    table = TableName("public", name)
    listed = read_tables(f"{table_pattern(table)},{table_pattern(TableName('public', 'others'))}")
    assert [name for name in (*ODD, name.swapcase()) if listed(f"public.{name}")] == [name]


@pytest.mark.parametrize("name", ODD)
def test_key_of_odd_names_is_that_of_its_table(name: str) -> None:
    table = TableName("public", name)
    entries = f"{key_patterns(table, [name, 'id'])};{key_patterns(TableName('public', 'others'), ['other'])}"
    assert read_key(entries, str(table), ["id", "of", name]) == [name, "id"]
    assert read_key(entries, "public.others", ["id", "other", name]) == ["other"]


@given(table=NAMES, key=NAMES, others=st.lists(st.tuples(NAMES, NAMES)))
def test_key_is_no_other_tables(table: str, key: str, others: list[tuple[str, str]]) -> None:
    entries = key_patterns(TableName("s", table), [key])
    assert read_key(entries, f"s.{table}", [key]) == [key]
    for name, column in others:
        same = f"{name}.{column}" == f"{table}.{key}"
        assert read_key(entries, f"s.{name}", [column]) == ([column] if same else [])


def test_tables_that_differ_by_case_or_at_a_dot_keep_their_own_keys() -> None:
    entries = key_patterns(TableName("public", "t"), ["a.b"])
    assert read_key(entries, "public.t", ["a.b", "axb"]) == ["a.b"]
    assert not read_key(entries, "public.t_a", ["b"])
    assert not read_key(entries, "public.T", ["a.b"])


def test_usual_names_stay_readable() -> None:
    assert key_patterns(TableName("public", "orders"), ["region", "id"]) == r"(?-i)public\.orders:region,id"
