"""The shape of a table: all of its catalog entry as one JSON value, read now or noted at a change."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from psycopg import Connection, sql

from cdc.connect.source.column_types import PgType
from cdc.connect.source.sql.queries import read_sql
from cdc.core.table import TableName

_OF_NAMES: Final = sql.SQL(" WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))")


class RelationKind(StrEnum):
    """`relkind` of pg_class; every kind that has no rows of its own in the log is OTHER."""

    TABLE = "r"
    PARTITIONED = "p"
    OTHER = "other"

    @classmethod
    def _missing_(cls, _: object) -> "RelationKind":
        return cls.OTHER


class Persistence(StrEnum):
    """`relpersistence` of pg_class."""

    PERMANENT = "p"
    UNLOGGED = "u"
    TEMPORARY = "t"


class ReplicaIdentity(StrEnum):
    """`relreplident` of pg_class: the columns by which the log identifies an old row."""

    DEFAULT = "d"
    FULL = "f"
    INDEX = "i"
    NOTHING = "n"


class Attribute(msgspec.Struct, frozen=True):
    """A column; `fills_old_rows`: older rows have its default."""

    name: str
    number: int
    type: int
    modifier: int
    is_generated: bool
    fills_old_rows: bool
    not_null: bool = False


class Leaf(msgspec.Struct, frozen=True):
    """A partition with rows of its own; `file` is its file number (pg_relation_filenode)."""

    schema: str
    table: str
    relation: int
    kind: RelationKind
    persistence: Persistence
    identity: ReplicaIdentity
    file: int | None

    @property
    def name(self) -> TableName:
        return TableName(self.schema, self.table)


class Shape(msgspec.Struct, frozen=True):
    """A relation as in the catalog.

    `identity`: the replica identity; `key`: the columns of its index. `leaves`: the partitions with rows of a
    partitioned table. `within`: the ancestors of a partition. `publications`: our publications of it; None if not
    noted. `moved`: those that it came to or left when this shape was noted. Each is a publication's name, and behind a
    tab, if it does not send all of the table, a digest of what it sends.
    """

    kind: RelationKind
    persistence: Persistence
    identity: ReplicaIdentity
    key: tuple[str, ...]
    key_immediate: bool
    key_primary: bool
    columns: tuple[Attribute, ...]
    types: tuple[PgType, ...]
    leaves: tuple[Leaf, ...] = ()
    within: tuple[TableName, ...] = ()
    publications: tuple[str, ...] | None = None
    moved: tuple[str, ...] = ()


def find_labels(publication: str, labels: Iterable[str]) -> tuple[bool, bool]:
    """Is the publication among these labels with whole tables, and is it with a part of one?"""
    ours = [tab for name, tab, _ in (label.partition("\t") for label in labels) if name == publication]
    return "" in ours, "\t" in ours


def parse_shape(text: str) -> Shape:
    """Parse a noted shape."""
    return msgspec.json.decode(text, type=Shape)


def read_shapes(connection: Connection, names: Sequence[TableName]) -> Mapping[TableName, Shape]:
    """Read the shapes of these tables; missing ones are left out."""
    wanted = ([name.schema for name in names], [name.table for name in names])
    rows: list[tuple[Any, ...]] = connection.execute(read_sql("shapes") + _OF_NAMES, wanted).fetchall()
    return {TableName(schema, table): msgspec.convert(shape, Shape) for schema, table, _, shape in rows}
