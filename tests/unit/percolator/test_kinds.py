"""Which queries can be saved, and which fields stand in those that name none."""

import json
from typing import Any

import pytest

from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.percolator.fields import name_fields, searched_fields
from cdc.sinks.percolator.kinds import check_query
from cdc.sinks.percolator.queries import Queries

ALL: dict[str, Any] = {"match_all": {}}
SCRIPT = {"source": "true"}
FIELDS = ["title", "title.keyword", "price"]


@pytest.mark.parametrize(
    "query",
    [
        {"term": {"script": {"value": 1}}},
        {"match": {"min_score": "1"}},
        {"range": {"more_like_this": {"gt": 1}}},
        {"terms": {"hybrid": ["a"], "boost": 2}},
        {"bool": "left to OpenSearch"},
        {"function_score": {"functions": [{"filter": {"term": {"a": 1}}, "weight": 2}, 3]}},
        {"intervals": {"title": {"match": {"query": "script"}}}},
    ],
)
def test_a_column_may_have_the_name_of_a_kind(query: Any) -> None:
    check_query(query, has_scripts=False)


@pytest.mark.parametrize(
    "query",
    [
        {"script": {"script": SCRIPT}},
        {"script_score": {"query": ALL, "script": SCRIPT}},
        {"function_score": {"script_score": {"script": SCRIPT}}},
        {"function_score": {"functions": [{"filter": ALL, "script_score": {"script": SCRIPT}}]}},
        {"function_score": {"functions": [{"filter": {"script": {"script": SCRIPT}}}]}},
        {"terms_set": {"title": {"terms": ["a"], "minimum_should_match_script": SCRIPT}}},
        {"intervals": {"title": {"match": {"query": "a", "filter": {"script": SCRIPT}}}}},
        {"nested": {"path": "p", "query": {"bool": {"should": [ALL, {"script": {"script": SCRIPT}}]}}}},
    ],
)
def test_a_script_is_found_wherever_it_is(query: Any) -> None:
    with pytest.raises(ValueError, match=r"queries\.scripts"):
        check_query(query, has_scripts=False)
    check_query(query, has_scripts=True)


@pytest.mark.parametrize("kind", ["hybrid", "neural", "template", "", "_name"])
def test_a_kind_that_is_not_known_is_refused_by_name(kind: str) -> None:
    with pytest.raises(ValueError, match=rf"^\[{kind}\] is no kind"):
        check_query({"bool": {"filter": {kind: {}}}}, has_scripts=True)


def test_all_fields_are_those_that_a_search_finds() -> None:
    columns = (
        Column("id", Kind.INTEGER),
        Column("title", Kind.TEXT),
        Column("sum", Kind.NUMERIC),
        Column("raw", Kind.BYTES),
    )
    table = Table(TableName("public", "t"), columns, ("id",))
    assert searched_fields(table) == ["id", "title", "title.keyword", "sum", "sum.exact"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"query": "a"}, {"lenient": True, "query": "a", "fields": FIELDS}),
        ({"query": "a", "lenient": False}, {"lenient": False, "query": "a", "fields": FIELDS}),
        ({"query": "a", "fields": []}, {"lenient": True, "query": "a", "fields": FIELDS}),
        ({"query": "a", "fields": ["*^2"]}, {"lenient": True, "query": "a", "fields": [f"{f}^2" for f in FIELDS]}),
        ({"query": "a", "fields": ["t*e", "price"]}, {"query": "a", "fields": ["title", "price"]}),
        ({"query": "a", "default_field": "title*"}, {"query": "a", "fields": ["title", "title.keyword"]}),
        ({"query": "a", "fields": ["x*"]}, {"query": "a", "fields": ["x*"]}),
        ({"query": "a", "default_field": "title"}, None),
        ({"query": "a", "fields": ["title^2"]}, None),
        ("left to OpenSearch", None),
    ],
)
def test_fields_stand_where_none_is_named_or_a_pattern(body: Any, named: Any) -> None:
    text = json.dumps({"bool": {"must": {"query_string": body}}})
    found = name_fields(text, FIELDS)
    assert found == text if named is None else json.loads(found) == {"bool": {"must": {"query_string": named}}}


def test_whatever_a_query_meets_refuses_that_query() -> None:
    deep = '{"bool":{"must":' * 400 + "{}" + "}}" * 400
    found = Queries.of({"1": deep, "2": json.dumps(ALL)})
    assert found.texts.keys() == {"2"}
    assert found.refused.keys() == {"1"}
