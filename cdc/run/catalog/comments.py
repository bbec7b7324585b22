"""Comments of tables and columns: read in Postgres, and kept in the schemas of the lake's tables."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from psycopg import Connection

from cdc.core.table import TableName
from cdc.sinks.lake.delta.actions import Metadata
from cdc.sinks.lake.delta.log import ConflictError, DeltaLog

_ASK: Final = """SELECT n.nspname, c.relname, a.attname, d.description
FROM pg_catalog.pg_description d
JOIN pg_catalog.pg_class c ON c.oid = d.objoid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND d.objsubid > 0
WHERE d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND n.nspname = ANY(%s)"""
_COMMENT: Final = "comment"


@dataclass(slots=True)
class TableComments:
    """The comment of a table, and of its columns by name; empty without one."""

    table: str = ""
    columns: dict[str, str] = field(default_factory=dict)


def read_comments(connection: "Connection[Any]", names: Collection[TableName]) -> Mapping[TableName, TableComments]:
    """The comments of these tables, by one statement; tables without any are left out."""
    found = defaultdict[TableName, TableComments](TableComments)
    for schema, table, column, text in connection.execute(_ASK, [sorted({name.schema for name in names})]):
        comments = found[TableName(schema, table)]
        if column is None:
            comments.table = text
        else:
            comments.columns[column] = text
    return {name: found[name] for name in names if name in found}


def write_comments(log: DeltaLog, comments: TableComments) -> bool:
    """Put the comments into the schema of a table's log, where every reader of Delta looks for them, unless they are
    there; no row changes. Returns whether they are there: a writer that was first is waited for until the next look."""
    if (described := describe(log.snapshot.metadata, comments)) is None:
        return True
    try:
        log.commit([described], "CHANGE COLUMN")
    except ConflictError:
        return False
    return True


def describe(metadata: Metadata | None, comments: TableComments) -> Metadata | None:
    """A table's metadata with these comments; None if they are there."""
    if metadata is None:
        return None
    schema = json.loads(metadata.schema_string)
    for column in schema["fields"]:
        column["metadata"].pop(_COMMENT, None)
        if text := comments.columns.get(column["name"]):
            column["metadata"][_COMMENT] = text
    if schema == json.loads(metadata.schema_string) and (metadata.description or "") == comments.table:
        return None
    described = {"schema_string": json.dumps(schema, ensure_ascii=False), "description": comments.table or None}
    return msgspec.structs.replace(metadata, **described)
