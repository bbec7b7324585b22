"""The shape of a table's index by the settings of its follower, and whether the table can have it."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from cdc.columns.types.extensions.geometries import EXTRA
from cdc.core.errors import PreconditionError
from cdc.core.table import Kind, Table, TableName
from cdc.sinks.opensearch import layout
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.search.settings import SearchSettings
from cdc.sinks.search.shape import DEFAULT, KEY_FIELD, OBJECTS, IndexShape
from cdc.sinks.search.templates import KINDS, Template, find_unfit


def shape_of(settings: ClusterSettings, table: TableName) -> IndexShape:
    """The shape of a table's index; of another kind of follower than search, the one that follows from the table."""
    given = settings.index_of(table) if isinstance(settings, SearchSettings) else None
    return IndexShape(given) if given else DEFAULT


def check_table(table: Table, settings: ClusterSettings) -> None:
    """Raise PreconditionError for a table that no index can hold, or not in the shape that the settings give it."""
    layout.check_table(table)
    shape = shape_of(settings, table.name)
    if any(each.kind is Kind.GEOMETRY for each in shape.columns(table)) and not find_spec("shapely"):
        raise PreconditionError(
            f"{table.name} has geometries, and GeoJSON is written by Shapely", f"pip install 'cdc-toolkit[{EXTRA}]'"
        )
    if shape.is_default:
        return
    for reason in find_misfits(shape, table):
        raise PreconditionError(f"{table.name}: {reason}", f'correct indexes."{table.name}" of this follower')
    layout.check_fields(table, [shape.field_of(each.name) for each in shape.columns(table)])


def find_misfits(shape: IndexShape, table: Table) -> Iterator[str]:
    """What the settings say of an index that the table does not have, or that its columns cannot be."""
    yield from _find_unknown(shape, table)
    given, fields = shape.given, {shape.field_of(each.name): each for each in shape.columns(table)}
    if left := [name for name in table.key if name in given.leave_out_columns]:
        yield f"leave_out_columns names {left[0]}, which is part of the key"
    if len(fields) < len(shape.columns(table)):
        yield "names gives two columns one name"
    if shape.can_move(table) and KEY_FIELD in fields:
        yield f"{KEY_FIELD} is the toolkit's own field, where a document's id or routing changes"
    for field, mapping in given.properties.items():
        column = fields.get(field)
        if column is None:
            if field not in _list_targets(given.properties):
                yield f"mappings names {field}, which is no field of it, and no other field is copied there"
        elif _is_object(mapping) and column.kind not in (Kind.JSON, Kind.STRUCT, Kind.GEOMETRY):
            yield f"mappings makes {field} an object, and its column is no JSON"


def _find_unknown(shape: IndexShape, table: Table) -> Iterator[str]:
    given, there = shape.given, {each.name: each for each in table.columns}
    named = {"columns": given.columns, "leave_out_columns": given.leave_out_columns, "names": [*given.names]}
    templates: Mapping[str, Template | None] = {"routing": shape.routing, "id": shape.id}
    named |= {place: [*template.columns] for place, template in templates.items() if template}
    for place, names in named.items():
        for name in names:
            if name not in there:
                yield f"{place} names {name}, and it has no such column"
    for place, template in templates.items():
        unfit = find_unfit([there[name] for name in template.columns if name in there]) if template else ()
        for name in unfit:
            yield f"{place} takes {name}, which is none of {', '.join(sorted(KINDS))}"
    if shape.id and (lacking := {*table.key} - {*shape.id.columns}):
        yield f"id does not take {', '.join(sorted(lacking))} of the key: two rows could be one document"


def _is_object(mapping: Mapping[str, Any]) -> bool:
    return "properties" in mapping or mapping.get("type") in OBJECTS


def _list_targets(properties: Mapping[str, Any]) -> set[str]:
    """The fields that are no column's: others are copied there, or they are another name of one."""
    copied = [mapping.get("copy_to", ()) for mapping in properties.values()]
    targets = {name for each in copied for name in ([each] if isinstance(each, str) else each)}
    return targets | {field for field, mapping in properties.items() if mapping.get("type") == "alias"}
