"""Vectors of pgvector and geometries of PostGIS, from their texts to lists, bytes and GeoJSON."""

import json
from typing import Any

import pyarrow as pa
import pytest

from cdc.columns.types.registry import type_of
from cdc.columns.types.unsupported import UnsupportedValueError
from cdc.connect.source.column_types import PgType, to_column
from cdc.core.table import Column, Kind

VECTOR = Column("v", Kind.VECTOR, type="public.vector")
PLACE = Column("p", Kind.GEOMETRY, type="public.geometry(Point,4326)")
POINT = "0101000020E6100000000000000000F03F0000000000000040"
ARC = "010800000003000000" + "00" * 16 + "000000000000F03F" * 2 + "0000000000000040" + "00" * 8


def test_vectors_are_lists_of_the_floats_that_postgres_has() -> None:
    texts = ["[1,2.5,-3.0000001e+10]", None, "[0.1]", "[1e-40,-0]"]
    found = type_of(VECTOR).from_log(texts, VECTOR)
    floats = [[1, 2.5, -30000001024], None, [0.10000000149011612], [9.99994610111476e-41, -0.0]]
    assert found.to_pylist() == floats
    assert type_of(VECTOR).write(found).to_pylist()[1:3] == ["null", "[0.1]"]
    assert type_of(VECTOR).from_log([], VECTOR).to_pylist() == []
    assert type_of(VECTOR).from_log([None], VECTOR).to_pylist() == [None]


def test_a_sparse_vector_has_its_zeros() -> None:
    read = type_of(VECTOR).from_text
    assert read(["{1:1.5,3:-2}/5", None, "{}/2"], VECTOR).to_pylist() == [[1.5, 0, -2, 0, 0], None, [0, 0]]
    with pytest.raises(UnsupportedValueError, match="a sparsevec of more than 16,000 dimensions"):
        read(["{1:1}/16001"], VECTOR)


def test_geometries_are_their_bytes_and_geojson_in_an_index() -> None:
    found = type_of(PLACE).from_log([POINT, None, ARC, "00"], PLACE)
    assert found.to_pylist() == [bytes.fromhex(POINT), None, bytes.fromhex(ARC), b"\0"]
    texts = type_of(PLACE).write(found, type_of(PLACE).to_index).to_pylist()
    assert texts[:2] == ['{"type":"Point","coordinates":[1.0,2.0]}', "null"]
    # what GeoJSON has no form for, or nobody can read, is kept as it is
    assert [json.loads(text)["type"] for text in texts[2:]] == ["EWKB", "EWKB"]
    assert type_of(PLACE).write(found).to_pylist()[0] == '"AQEAACDmEAAAAAAAAAAA8D8AAAAAAAAAQA=="'


TYPES: list[tuple[PgType, int, tuple[Any, ...]]] = [
    (PgType(1, "vector", "public", False, -1, 0, 0), 3, (Kind.VECTOR, "public.vector", "float")),
    (PgType(1, "sparsevec", "x", False, -1, 0, 0), 16_001, (Kind.LITERAL, "x.sparsevec", "keyword")),
    (PgType(1, "vector", "public", False, -1, 0, 0, ",", ((23, -1),)), -1, (Kind.LITERAL, "public.vector", "keyword")),
    (PgType(1, "geometry", "g", False, -1, 0, 0), 1107460, (Kind.GEOMETRY, "g.geometry(Point,4326)", "geo_point")),
    (PgType(1, "geometry", "g", False, -1, 0, 0), 987392, (Kind.GEOMETRY, "g.geometry(Geometry,3857)", "object")),
    (PgType(1, "geometry", "g", False, -1, 0, 0), -1, (Kind.GEOMETRY, "g.geometry", "object")),
    (PgType(1, "geography", "g", False, -1, 0, 0), -1, (Kind.GEOMETRY, "g.geography(Geometry,4326)", "geo_shape")),
]


@pytest.mark.parametrize(("found", "modifier", "told"), TYPES, ids=[str(told) for _, _, told in TYPES])
def test_a_type_of_an_extension_is_known_by_its_name(found: PgType, modifier: int, told: tuple[Any, ...]) -> None:
    column = to_column("c", 1, modifier, {1: found})
    assert (column.kind, column.type, type_of(column).index["type"]) == told
    array = PgType(2, "_any", "public", False, -1, 0, 1)
    assert type_of(to_column("c", 2, modifier, {1: found, 2: array})).arrow == pa.list_(
        pa.field("element", pa.string())
    )
