"""Tables as Postgres's catalog describes them, read into `cdc.core.table.Table`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from connect import types
from connect.types import Types

# the key's own columns come first in indkey, those of INCLUDE behind them
_RELATIONS = """
SELECT n.nspname AS schema, c.relname AS "table", c.oid, c.relkind::text, c.relpersistence::text,
       i.indimmediate AS key_immediate, i.indisprimary AS key_primary, c.relreplident::text AS identity,
       (SELECT array_agg(a.attname::text ORDER BY k.n)
          FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
         WHERE k.n <= i.indnkeyatts) AS key
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_index i ON i.indrelid = c.oid
       AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
 WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""
# system columns have numbers below 1, dropped ones stay in the catalog
_COLUMNS = """
SELECT a.attrelid AS oid, a.attname::text AS name, a.attnum AS number, a.atttypid AS type, a.atttypmod AS modifier,
       a.attgenerated <> '' AS is_generated
  FROM pg_attribute a
 WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attrelid, a.attnum
"""


class TablesRefusedError(PreconditionError):
    """Some tables cannot be followed; `refusals` has every reason of every one of them, `offer` what would be taken."""

    def __init__(self, refusals: Iterable[PreconditionError], offer: str = "") -> None:
        self.refusals = tuple(refusals)
        super().__init__("; ".join(map(str, self.refusals)))
        self.offer = offer

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(map(str, self.refusals))


@dataclass(frozen=True, slots=True)
class Examined:
    """Tables that can be followed, in the order in which they were named, and why the others cannot.

    Those that are not there at all are `missing`, too.
    """

    tables: Sequence[Table]
    refusals: Mapping[TableName, Sequence[PreconditionError]]
    missing: Set[TableName]


def describe(connection: Connection, names: Sequence[TableName]) -> list[Table]:
    """Read the tables, in the order of `names`.

    Raises TablesRefusedError for those that are not there or cannot be followed: what is wrong and what to do.
    """
    examined = examine(connection, names)
    if examined.refusals:
        raise TablesRefusedError(chain.from_iterable(examined.refusals.values()))
    return list(examined.tables)


def examine(connection: Connection, names: Sequence[TableName]) -> Examined:
    """Read the tables, and find all that keeps any of them from being followed."""
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(_RELATIONS, ([n.schema for n in names], [n.table for n in names])).fetchall()
        relations = {TableName(row["schema"], row["table"]): row for row in found}
        oids = [relation["oid"] for relation in relations.values()]
        columns = cursor.execute(_COLUMNS, (oids,)).fetchall()
    known = types.types(connection, [column["type"] for column in columns])
    each = {
        name: _examined(name, relations[name], columns, known) if name in relations else _missing(name)
        for name in names
    }
    return Examined(
        [found for found in each.values() if isinstance(found, Table)],
        {name: found for name, found in each.items() if not isinstance(found, Table)},
        set(names) - relations.keys(),
    )


def _missing(name: TableName) -> list[PreconditionError]:
    return [PreconditionError(f"no table {name} in the source", "correct source.tables")]


def _examined(
    name: TableName, relation: dict[str, Any], attributes: list[dict[str, Any]], known: Types
) -> Table | list[PreconditionError]:
    """The table, or all that keeps it from being followed."""
    # Postgres sends no generated columns (manual, "Generated Column Replication"): followers have the others
    own = [a for a in attributes if a["oid"] == relation["oid"] and not a["is_generated"]]
    key = _key(relation)
    columns = [replace(types.column(a["name"], a["type"], a["modifier"], known), number=a["number"]) for a in own]
    refusals = [*_relation_refusals(name, relation), *_name_refusals(name, [column.name for column in columns])]
    return refusals or Table(name, tuple(types.in_key(c) if c.name in key else c for c in columns), key)


def _key(relation: dict[str, Any]) -> tuple[str, ...]:
    """The columns by which the log names a row: those of the replica identity; none where that is the whole row.

    A deferrable key is none: two rows may have it, as long as their transaction lasts.
    """
    return tuple(relation["key"]) if relation["key"] and relation["key_immediate"] else ()


def other_keys(connection: Connection, names: Sequence[TableName]) -> dict[TableName, tuple[str, ...]]:
    """The keys of those of these tables whose key is not their primary one, which Debezium would take."""
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(_RELATIONS, ([n.schema for n in names], [n.table for n in names])).fetchall()
    return {
        TableName(each["schema"], each["table"]): key
        for each in found
        if (key := _key(each)) and not each["key_primary"]
    }


def _relation_refusals(name: TableName, relation: dict[str, Any]) -> Iterator[PreconditionError]:
    # one line is enough: what follows is about tables that have rows of their own
    if relation["relkind"] != "r":
        yield PreconditionError(f"{name} is no ordinary table", "name the tables behind it, or leave it out")
        return
    if relation["relpersistence"] != "p":
        yield PreconditionError(f"{name} is not logged, so no change of it can be captured", "ALTER TABLE … SET LOGGED")
    # with the whole row in the log, rows need no key; without either, UPDATE and DELETE of a published table fail, as
    # the manual says of publications
    if relation["identity"] != "f" and not _key(relation):
        what = "a deferrable primary key" if relation["key"] else "no primary key"
        yield PreconditionError(
            f"{name} has {what}, and no other replica identity",
            "add a primary key, or ALTER TABLE … REPLICA IDENTITY FULL",
        )


def _name_refusals(name: TableName, columns: Sequence[str]) -> Iterator[PreconditionError]:
    """Debezium takes no two columns that differ by case only, Delta's merge no backtick."""
    lowered = [column.lower() for column in columns]
    for column in columns:
        if "`" in column or lowered.count(column.lower()) > 1:
            yield PreconditionError(
                f"column {column} of {name} has a backtick in its name, or another differs from it by case only",
                "rename it, or leave the table out",
            )
