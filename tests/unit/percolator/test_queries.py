"""Queries as rows have them: what can be one, and how it stands in an index."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.core.errors import PreconditionError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.percolator.layout import OwnFields, PercolatorNote, check_queries, percolator_index
from cdc.sinks.percolator.queries import Queries, one_line, to_operations
from tests.support.examples import examples
from tests.unit.percolator.test_records import OWNER

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@examples(300)
@given(st.dictionaries(st.text(), json_values), st.sampled_from([None, 1, "\t"]))
def test_a_query_is_one_line_and_the_same(query: dict[str, object], indent: int | str | None) -> None:
    line = one_line(json.dumps(query, indent=indent, ensure_ascii=False).replace("\n", "\r\n"))
    assert "\n" not in line
    assert "\r" not in line
    assert json.loads(line) == query


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", '{"a": NaN}', '{"a": "\n"}', "[" * 100_000])
def test_what_is_no_json_is_no_query(text: str) -> None:
    with pytest.raises(ValueError, match=r"it is no JSON$"):
        one_line(text)


@pytest.mark.parametrize("text", ["1", "[]", "null", '"match_all"'])
def test_what_is_no_object_is_no_query(text: str) -> None:
    with pytest.raises(ValueError, match="it is no JSON object"):
        one_line(text)


def test_queries_are_put_and_all_others_taken_out() -> None:
    found = Queries.of({'{"id":1}': '{"match_all":{}}', '{"id":2}': "[]", '{"id":3}': None})
    assert found == Queries({'{"id":1}': '{"match_all":{}}'}, {'{"id":2}': "it is no JSON object"}, ['{"id":3}'])
    put, gone = to_operations(found, OwnFields("q", "k"), 7)
    action, document = put.body.decode().splitlines()
    assert json.loads(action)["index"] == {"_id": '{"id":1}', "version": 7, "version_type": "external_gte"}
    assert json.loads(document) == {"q": {"match_all": {}}, "k": '{"id":1}'}
    assert gone.ids.to_pylist() == ['{"id":3}', '{"id":2}']
    assert b"delete" in gone.body


def table(*names: str) -> Table:
    return Table(TableName("public", "t"), tuple(Column(name, Kind.TEXT) for name in names), (names[0],))


def test_no_column_has_the_name_of_an_own_field() -> None:
    assert OwnFields.beside(table("id")) == OwnFields("_cdc_query", "_cdc_key")
    assert OwnFields.beside(table("id", "_cdc_query")) == OwnFields("__cdc_query", "__cdc_key")
    assert OwnFields.beside(table("_cdc_key.part", "__cdc_query")) == OwnFields("___cdc_query", "___cdc_key")


def test_an_index_knows_its_table() -> None:
    note = PercolatorNote(OWNER, table("id"), is_whole=True)
    assert PercolatorNote.from_meta(json.loads(json.dumps(note.as_meta()))) == note
    assert PercolatorNote.from_meta({"cdc": {}}) is None
    assert percolator_index("shop-alerts", TableName("public", "t")) == "shop-alerts-public-t.queries"


def test_queries_need_a_column_of_text() -> None:
    check_queries(table("id", "query"), "query")
    with pytest.raises(PreconditionError, match=r"public\.t has no column query of type text, json or jsonb"):
        check_queries(table("id"), "query")
    numbers = Table(TableName("public", "t"), (Column("query", Kind.INTEGER),), ("query",))
    with pytest.raises(PreconditionError, match="has no column query"):
        check_queries(numbers, "query")
