"""Geometries of PostGIS: WKB with the SRID in it (EWKB), as PostGIS sends it; GeoJSON in an index.

GeoJSON has neither an SRID nor a fourth coordinate, and no curves.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

import pyarrow as pa

from cdc.columns.types.byte_strings import BYTES
from cdc.columns.types.postgres_type import PostgresType, read_each
from cdc.core.table import Column, Kind

EXTRA: Final = "postgis"
"""Of the package: GeoJSON is written by Shapely."""
_DEGREES: Final = ",4326)"
_NAMES: Final = ("Geometry", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon")
_GEOGRAPHY: Final = "geography"
_STORED: Final = {"type": "object", "enabled": False}


def describe_modifier(name: str, modifier: int) -> str:
    """A type with its modifier, `public.geometry(Point,4326)` (PostGIS, "gserialized_typmod.c")."""
    if modifier < 0:
        # a geography is in degrees, unless it says otherwise
        return f"{name}(Geometry{_DEGREES}" if name.endswith(f".{_GEOGRAPHY}") else name
    kind, srid = (modifier >> 2) & 0x3F, ((modifier & 0x0FFFFF00) - (modifier & 0x10000000)) >> 8
    return f"{name}({_NAMES[kind] if kind < len(_NAMES) else 'Geometry'},{srid})"


def _of(column: Column) -> PostgresType:
    """In an index, only what is in degrees has a place on the globe: all else is kept, and not found by its place."""
    if not column.type.endswith(_DEGREES):
        return replace(GEOMETRY, index=_STORED)
    is_point = column.type.endswith(f"(Point{_DEGREES}")
    return replace(GEOMETRY, index={**GEOMETRY.index, "type": "geo_point"}) if is_point else GEOMETRY


def _to_geojson(array: pa.Array) -> pa.Array:
    values = array.to_pylist()
    try:
        texts = _write_geojson(values)
    except (NotImplementedError, ValueError):
        texts = [None if value is None else _write_one(value) for value in values]
    return pa.array(texts, pa.string())


def _write_geojson(values: Sequence[bytes | None]) -> list[str | None]:
    import shapely

    # GEOSException is no ValueError
    with _translated(shapely.errors.ShapelyError):
        return list(shapely.to_geojson(shapely.from_wkb(values)))


def _write_one(value: bytes) -> str:
    with suppress(NotImplementedError, ValueError):
        [text] = _write_geojson([value])
        if text is not None:
            return text
    # what GeoJSON has no form for: an index keeps it, and does not find it by its place (`ignore_malformed`)
    return json.dumps({"type": "EWKB", "ewkb": base64.b64encode(value).decode()})


@contextmanager
def _translated(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind as error:
        raise ValueError(str(error)) from error


_read: Final = read_each(bytes.fromhex, pa.binary())
GEOMETRY: Final[PostgresType] = replace(
    BYTES,
    kind=Kind.GEOMETRY,
    names=(),
    extensions=("geometry", _GEOGRAPHY),
    has_name=True,
    sent_as=str,
    from_log=_read,
    is_sent_whole=False,
    from_text=_read,
    to_index=_to_geojson,
    index={"type": "geo_shape", "ignore_malformed": True},
    wider=("text",),
    exact="exact, as EWKB; in an index GeoJSON, without SRID and M: geo_point or geo_shape in SRID 4326, else kept",
    of=_of,
)
