"""Tables as Postgres's catalog describes them, read into `cdc.core.table.Table`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

from cdc.core.errors import PreconditionError
from cdc.core.table import Column, Kind, Table, TableName

KINDS: dict[str, Kind] = {
    "bool": Kind.BOOLEAN,
    "int2": Kind.SMALLINT,
    "int4": Kind.INTEGER,
    "int8": Kind.BIGINT,
    "float4": Kind.REAL,
    "float8": Kind.DOUBLE,
    "text": Kind.TEXT,
    "varchar": Kind.TEXT,
    "bpchar": Kind.TEXT,
    "json": Kind.JSON,
    "jsonb": Kind.JSON,
    "uuid": Kind.UUID,
    "bytea": Kind.BYTES,
    "date": Kind.DATE,
    "time": Kind.TIME,
    "timestamp": Kind.TIMESTAMP,
    "timestamptz": Kind.TIMESTAMPTZ,
}
MAX_DECIMAL_DIGITS = 38
KEY_KINDS = frozenset(
    {Kind.BOOLEAN, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.TEXT, Kind.ENUM, Kind.UUID, Kind.DATE}
    | {Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME, Kind.DECIMAL}
)
"""Kinds whose equality is that of their text in the log; numeric without a scale has 1.0 = 1.00."""

# the key's own columns come first in indkey, those of INCLUDE behind them
_RELATIONS = """
SELECT n.nspname AS schema, c.relname AS "table", c.oid, c.relkind::text, c.relpersistence::text,
       i.indimmediate AS key_immediate, c.relreplident::text AS identity, i.indisreplident AS key_identity,
       (SELECT array_agg(a.attname::text ORDER BY k.n)
          FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
         WHERE k.n <= i.indnkeyatts) AS key
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
 WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""
# system columns have numbers below 1, dropped ones stay in the catalog
_COLUMNS = """
SELECT a.attrelid AS oid, a.attname::text AS name, t.typname::text AS type, t.typtype::text,
       a.atttypmod AS modifier, a.attgenerated::text AS generated,
       COALESCE(NOT co.collisdeterministic, false) AS loose
  FROM pg_attribute a
  JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_collation co ON co.oid = a.attcollation
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
    each = {name: _examined(name, relations[name], columns) if name in relations else _missing(name) for name in names}
    return Examined(
        [found for found in each.values() if isinstance(found, Table)],
        {name: found for name, found in each.items() if not isinstance(found, Table)},
        set(names) - relations.keys(),
    )


def _missing(name: TableName) -> list[PreconditionError]:
    return [PreconditionError(f"no table {name} in the source", "correct source.tables")]


def _examined(
    name: TableName, relation: dict[str, Any], attributes: list[dict[str, Any]]
) -> Table | list[PreconditionError]:
    """The table, or all that keeps it from being followed."""
    own = [a for a in attributes if a["oid"] == relation["oid"]]
    columns = [_column(name, a) for a in own]
    fit = {column.name: column for column in columns if isinstance(column, Column)}
    key = tuple(relation["key"] or ())
    refusals = [
        *_relation_refusals(name, relation),
        *_name_refusals(name, [a["name"] for a in own]),
        *(column for column in columns if isinstance(column, PreconditionError)),
        *_key_refusals(name, [fit[column] for column in key if column in fit], own),
    ]
    return refusals or Table(name, tuple(fit.values()), key)


def _relation_refusals(name: TableName, relation: dict[str, Any]) -> Iterator[PreconditionError]:
    # one line is enough: what follows is about tables that have rows of their own
    if relation["relkind"] != "r":
        yield PreconditionError(f"{name} is no ordinary table", "name the tables behind it, or leave it out")
        return
    if relation["relpersistence"] != "p":
        yield PreconditionError(f"{name} is not logged, so no change of it can be captured", "ALTER TABLE … SET LOGGED")
    if not relation["key"]:
        yield PreconditionError(f"{name} has no primary key", "add one, or leave it out of source.tables")
    # it can be no replica identity: once such a table is published, its UPDATE and DELETE fail (manual, "Publication")
    elif not relation["key_immediate"]:
        yield PreconditionError(f"the primary key of {name} is deferrable", "make it NOT DEFERRABLE")
    # a delete has the columns of the replica identity only, and so would not say whose row it was
    if relation["identity"] not in ("d", "f") and not relation["key_identity"]:
        yield PreconditionError(
            f"the replica identity of {name} is not its primary key", "ALTER TABLE … REPLICA IDENTITY DEFAULT"
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


def _key_refusals(
    name: TableName, key: Sequence[Column], attributes: list[dict[str, Any]]
) -> Iterator[PreconditionError]:
    loose = {a["name"] for a in attributes if a["loose"]}
    for column in key:
        if column.kind not in KEY_KINDS:
            what = f"key column {column.name} of {name} is {column.kind}, whose equal values differ as text"
            yield PreconditionError(what, "use a key of another type")
        if column.name in loose:
            what = f"key column {column.name} of {name} has a nondeterministic collation"
            yield PreconditionError(what, "use a deterministic one for the key")


def _column(table: TableName, attribute: dict[str, Any]) -> Column | PreconditionError:
    name, type_name = attribute["name"], attribute["type"]
    if attribute["generated"]:
        return PreconditionError(f"column {name} of {table} is generated and not in the log", "leave the table out")
    if type_name == "numeric":
        return _numeric(name, attribute["modifier"])
    kind = Kind.ENUM if attribute["typtype"] == "e" else KINDS.get(type_name)
    if kind is None:
        return PreconditionError(
            f"column {name} of {table} has type {type_name}, which is not supported yet",
            "leave the table out of source.tables",
        )
    return Column(name, kind)


def _numeric(name: str, modifier: int) -> Column:
    """numeric(p, s) as its modifier says it (`numerictypmodin` in Postgres); unbounded digits stay text."""
    if modifier < 0:
        return Column(name, Kind.NUMERIC)
    # eleven bits with a sign: since Postgres 15 a scale may be below 0, or above the precision
    precision, scale = (modifier - 4) >> 16, ((modifier - 4) & 0x7FF ^ 1024) - 1024
    if precision > MAX_DECIMAL_DIGITS or not 0 <= scale <= precision:
        return Column(name, Kind.NUMERIC)
    return Column(name, Kind.DECIMAL, precision, scale)
