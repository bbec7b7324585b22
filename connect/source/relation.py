"""The shape of a table: all of its catalog entry as one JSON value, read now or noted at a change."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from psycopg import Connection

from cdc.core.table import TableName
from connect.source.column_types import PgType

# `key`: without INCLUDE columns, which follow the others in indkey. `columns`: system columns have numbers below 1, and
# dropped ones stay in the catalog. In a partitioned table only the partitions have rows that a default may fill.
# `types`: of the columns, and the types under domains, of array elements and of composite fields; int2vector and
# oidvector are arrays with a text form of their own.
SHAPES: Final = """
SELECT n.nspname::text AS schema, c.relname::text AS "table", c.oid::bigint AS relation, jsonb_build_object(
    'kind', c.relkind, 'persistence', c.relpersistence, 'identity', c.relreplident,
    'key_immediate', coalesce(i.indimmediate, false), 'key_primary', coalesce(i.indisprimary, false),
    'key', (SELECT coalesce(jsonb_agg(a.attname ORDER BY k.n), '[]')
              FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
              JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
             WHERE k.n <= i.indnkeyatts),
    'columns', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                    'name', a.attname, 'number', a.attnum, 'type', a.atttypid::bigint, 'modifier', a.atttypmod,
                    'not_null', a.attnotnull,
                    'is_generated', a.attgenerated <> '',
                    'fills_old_rows', a.atthasmissing OR EXISTS (
                        SELECT FROM pg_attribute own
                         WHERE own.attrelid = ANY (leaf.oids) AND own.attname = a.attname AND own.atthasmissing))
                    ORDER BY a.attnum), '[]')
                  FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
    'types', (WITH RECURSIVE used(oid) AS (
                  SELECT a.atttypid FROM pg_attribute a
                   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                UNION
                  SELECT part FROM used JOIN pg_type t USING (oid), unnest(ARRAY[t.typbasetype, t.typelem] || ARRAY(
                         SELECT atttypid FROM pg_attribute
                          WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped)) AS part
                   WHERE part <> 0
              )
              SELECT coalesce(jsonb_agg(jsonb_build_object(
                  'oid', t.oid::bigint, 'name', t.typname, 'schema', tn.nspname, 'is_enum', t.typtype = 'e',
                  'modifier', t.typtypmod, 'base', CASE t.typtype WHEN 'd' THEN t.typbasetype::bigint ELSE 0 END,
                  'element', CASE WHEN t.typcategory = 'A' AND t.typtype = 'b'
                                   AND t.typname NOT IN ('int2vector', 'oidvector')
                                  THEN t.typelem::bigint ELSE 0 END)
                  || CASE t.typtype WHEN 'e' THEN jsonb_build_object('labels', (
                         SELECT jsonb_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e
                          WHERE e.enumtypid = t.oid))
                     WHEN 'c' THEN jsonb_build_object('attributes', (
                         SELECT jsonb_agg(jsonb_build_array(atttypid::bigint, atttypmod) ORDER BY attnum)
                           FROM pg_attribute WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped))
                     ELSE '{}' END
                  || CASE t.typdelim WHEN ',' THEN '{}' ELSE jsonb_build_object('separator', t.typdelim) END
                  ORDER BY t.oid), '[]')
                FROM used JOIN pg_type t USING (oid) JOIN pg_namespace tn ON tn.oid = t.typnamespace)
    ) || CASE c.relkind WHEN 'p' THEN jsonb_build_object('leaves', (
              SELECT coalesce(jsonb_agg(jsonb_build_object(
                         'schema', ln.nspname, 'table', l.relname, 'relation', l.oid::bigint, 'kind', l.relkind,
                         'persistence', l.relpersistence, 'identity', l.relreplident,
                         'file', pg_relation_filenode(l.oid)::bigint) ORDER BY l.oid), '[]')
                FROM pg_class l JOIN pg_namespace ln ON ln.oid = l.relnamespace WHERE l.oid = ANY (leaf.oids)))
         ELSE '{}' END
      || CASE WHEN c.relispartition THEN jsonb_build_object('within', (
              SELECT jsonb_agg(jsonb_build_object('schema', an.nspname, 'table', a.relname) ORDER BY a.oid)
                FROM pg_partition_ancestors(c.oid) AS ancestor
                JOIN pg_class a ON a.oid = ancestor.relid AND a.oid <> c.oid
                JOIN pg_namespace an ON an.oid = a.relnamespace))
         ELSE '{}' END AS shape
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_index i ON i.indrelid = c.oid
       AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
 CROSS JOIN LATERAL (
       WITH RECURSIVE tree(oid) AS (
           SELECT c.oid WHERE c.relkind = 'p'
           UNION ALL SELECT inhrelid FROM tree JOIN pg_inherits ON inhparent = tree.oid)
       SELECT coalesce(array_agg(oid), '{}') AS oids FROM tree JOIN pg_class USING (oid) WHERE relkind <> 'p') AS leaf
"""
"""A SELECT of all relations with their shapes (schema, table, relation, shape); a condition may follow."""

_OF_NAMES: Final = " WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"


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
    noted.
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


def parse_shape(text: str) -> Shape:
    """Parse a noted shape."""
    return msgspec.json.decode(text, type=Shape)


def read_shapes(connection: Connection, names: Sequence[TableName]) -> Mapping[TableName, Shape]:
    """Read the shapes of these tables; missing ones are left out."""
    wanted = ([name.schema for name in names], [name.table for name in names])
    rows: list[tuple[Any, ...]] = connection.execute((SHAPES + _OF_NAMES).encode(), wanted).fetchall()
    return {TableName(schema, table): msgspec.convert(shape, Shape) for schema, table, _, shape in rows}
