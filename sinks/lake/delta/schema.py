"""A table's schema in the log (Delta protocol, "Schema Serialization Format"), and the actions that create a table."""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from cdc.sinks.lake.delta.actions import Action, Metadata, Protocol
from cdc.sinks.lake.delta.snapshot import now_ms

_NTZ = "timestampNtz"


def create_actions(
    name: str, schema: pa.Schema, properties: Mapping[str, str], features: Iterable[str] = (), id: str | None = None
) -> list[Action]:
    """The actions that create a table. It declares only the features that it needs, so that all readers accept it."""
    ntz = [_NTZ] if any(kind == pa.timestamp("us") for kind in _value_types(schema.types)) else []
    wanted = list(dict.fromkeys([*ntz, *features]))
    # reader features go into both lists ("Supported Features"); change data concerns writers only
    both = [feature for feature in wanted if feature in (_NTZ, "deletionVectors")]
    writer_only = [feature for feature in wanted if feature not in both]
    protocol = Protocol(1, 2)
    if wanted:
        protocol = Protocol(3 if both else 1, 7, both or None, [*both, *writer_only])
    return [protocol, metadata_action(name, schema, properties, id)]


def metadata_action(name: str, schema: pa.Schema, properties: Mapping[str, str], id: str | None = None) -> Metadata:
    """The action that gives a table its schema and properties; without an `id` it begins another table."""
    return Metadata(
        id=id or str(uuid.uuid4()),
        name=name,
        format={"provider": "parquet", "options": {}},
        schema_string=json.dumps(delta_schema(schema), ensure_ascii=False),
        partition_columns=[],
        created_time=now_ms(),
        configuration=dict(properties),
    )


def delta_schema(schema: pa.Schema) -> dict[str, Any]:
    """The schema as the log spells it (Delta protocol, "Schema Serialization Format")."""
    # nullable in any case: change data of deletes has nulls outside the key
    spelled = [
        {"name": field.name, "type": delta_type(field.type), "nullable": True, "metadata": {}} for field in schema
    ]
    return {"type": "struct", "fields": spelled}


def _value_types(kinds: Iterable[pa.DataType]) -> Iterator[pa.DataType]:
    """The types of single values: of a list's elements, and of a struct's fields."""
    for kind in kinds:
        if pa.types.is_list(kind):
            yield from _value_types([kind.value_type])
        elif pa.types.is_struct(kind):
            yield from _value_types(field.type for field in kind)
        else:
            yield kind


def delta_type(kind: pa.DataType) -> str | dict[str, Any]:
    """An Arrow type as the log spells it, which is as Spark does."""
    return from_arrow_type(kind).jsonValue()
