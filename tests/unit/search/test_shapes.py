"""What the settings of an index mean for a table, and what a table cannot have."""

from typing import Any

import pytest
from pydantic import ValidationError

from cdc.core.errors import PreconditionError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.search.products import ELASTICSEARCH, OPENSEARCH, Product
from cdc.sinks.search.settings import IndexSettings, SearchSettings
from cdc.sinks.search.shape import DEFAULT, IndexShape
from cdc.sinks.search.table_shapes import check_table

TABLE = Table(
    TableName("public", "t"),
    (
        Column("id", Kind.BIGINT),
        Column("tenant", Kind.TEXT),
        Column("price", Kind.NUMERIC),
        Column("data", Kind.JSON),
        Column("_cdc_key", Kind.TEXT),
    ),
    ("id",),
)


def described(**given: Any) -> SearchSettings:
    indexes = {"public.t": IndexSettings.model_validate(given)}
    return SearchSettings(kind="search", url="http://x", indexes=indexes)


MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"columns": ["id", "nope"]}, "columns names nope, and it has no such column"),
    ({"leave_out_columns": ["id"]}, "leave_out_columns names id, which is part of the key"),
    ({"names": {"tenant": "price"}}, "names gives two columns one name"),
    ({"names": {"tenant": "price.eur"}}, "column price.eur would be a part of column price"),
    ({"names": {"tenant": "_source"}}, "OpenSearch keeps the name _source for itself"),
    ({"routing": "{who}"}, "routing names who, and it has no such column"),
    ({"routing": "{price}"}, "routing takes price, which is none of bigint, boolean, date"),
    ({"id": "{tenant}"}, "id does not take id of the key: two rows could be one document"),
    ({"routing": "{tenant}"}, "_cdc_key is the toolkit's own field, where a document's id or routing changes"),
    ({"mappings": {"properties": {"other": {"type": "text"}}}}, "mappings names other, which is no field of it"),
    ({"mappings": {"properties": {"tenant": {"type": "nested"}}}}, "mappings makes tenant an object"),
]


@pytest.mark.parametrize(("given", "told"), MISFITS, ids=[told for _, told in MISFITS])
def test_what_a_table_cannot_have_is_refused_by_name(given: dict[str, Any], told: str) -> None:
    with pytest.raises(PreconditionError) as refused:
        check_table(TABLE, described(**given))
    assert f"public.t: {told}" in str(refused.value)


def test_what_a_table_can_have_is_taken() -> None:
    copied = {"tenant": {"type": "keyword", "copy_to": ["all"]}, "all": {"type": "text"}, "who": {"type": "alias"}}
    own = {"mappings": {"properties": {**copied, "data": {"type": "nested"}}}, "id": "x{id}", "routing": "{id}"}
    check_table(TABLE, described(**own))
    check_table(TABLE, described())


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"data_stream": True}, "a data stream takes neither updates nor deletions"),
    ({"columns": ["a"], "leave_out_columns": ["b"]}, "stands beside columns"),
    ({"mappings": {"dynamic": True}}, "is kept by the toolkit; only properties can be given"),
    ({"mappings": {"properties": {"a": "text"}}}, "is to be a block with a type"),
    ({"settings": {"index": {"refresh_interval": "1s"}}}, "has refresh_interval, which cannot be given"),
    ({"settings": {"default_pipeline": "x"}}, "has default_pipeline, which cannot be given"),
    ({"settings": {"index.mode": "logsdb"}}, "has mode, which cannot be given"),
    ({"settings": {"mapping": {"source": {"mode": "synthetic"}}}}, "has mapping.source.mode, which cannot be given"),
    ({"id": "{a}{b}"}, "has nothing between two columns"),
]


@pytest.mark.parametrize(("given", "told"), WRONG, ids=[told for _, told in WRONG])
def test_what_no_index_can_have_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        IndexSettings.model_validate(given)
    assert told in str(refused.value)


def test_a_shape_has_a_name_of_its_own() -> None:
    shapes = [IndexShape(IndexSettings.model_validate(given)) for given, _ in MISFITS]
    assert len({each.name for each in shapes}) == len(shapes)
    assert DEFAULT.name == "" == IndexShape(IndexSettings()).name
    assert shapes[0].name == IndexShape(IndexSettings.model_validate(MISFITS[0][0])).name


def test_what_differs_between_the_products() -> None:
    search, elastic = Product(OPENSEARCH, (3, 0)), Product(ELASTICSEARCH, (9, 2))
    assert search.find_foreign(["text", "dense_vector"]) == (
        "OpenSearch has no type dense_vector: name it knn_vector, with what that takes"
    )
    assert elastic.find_foreign(["knn_vector"]) == (
        "Elasticsearch has no type knn_vector: name it dense_vector, with what that takes"
    )
    assert search.find_foreign(["knn_vector"]) is None is elastic.find_foreign(["dense_vector"])
    # from these versions on, a document would come back without its vectors
    assert search.settings_for(["knn_vector"]) == {"knn.derived_source.enabled": False}
    assert elastic.settings_for(["dense_vector"]) == {"mapping.exclude_source_vectors": False}
    assert Product(OPENSEARCH, (2, 19)).settings_for(["knn_vector"]) == {}
    assert Product(ELASTICSEARCH, (9, 1)).settings_for(["dense_vector"]) == {} == elastic.settings_for(["text"])
