"""Reads tables from Postgres's catalog, as `cdc.core.table.Table`, or the reasons why they cannot be followed."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import psycopg
from psycopg import Connection, sql

from cdc.connect.masks import apply_mask, find_mask_refusals
from cdc.connect.row_filters import find_filter_refusals
from cdc.connect.source import column_types as types
from cdc.connect.source.relation import Leaf, Persistence, RelationKind, ReplicaIdentity, Shape, read_shapes
from cdc.connect.source.sql.queries import read_sql
from cdc.connect.table_choices import NO_CHOICES, Choices, ChosenType, ColumnChoices
from cdc.core.errors import CdcError, PreconditionError, SeveralErrors
from cdc.core.table import Column, Table, TableName
from cdc.postgres.locks import LOCK_PATIENCE, find_holders, locked_error

Key = tuple[str, ...]
Keys = Mapping[TableName, Key]
"""The user's keys for tables without one."""
_AWKWARD = re.compile(r'[`"\\\x00-\x1f]')
_IDENTITIES = {
    ReplicaIdentity.DEFAULT: "DEFAULT",
    ReplicaIdentity.FULL: "FULL",
    ReplicaIdentity.INDEX: "an index",
    ReplicaIdentity.NOTHING: "NOTHING",
}


class TablesRefusedError(SeveralErrors, PreconditionError):
    """Some tables cannot be followed, for these reasons; `offer`: settings that would work."""

    def __init__(self, errors: Iterable[CdcError], offer: str = "") -> None:
        super().__init__(errors)
        self.offer = offer


@dataclass(frozen=True, slots=True)
class ExaminedTables:
    """Tables that can be followed, in the order of their names' list, and the refusals of the others.

    `shapes`: of all that exist.
    """

    tables: Sequence[Table]
    refusals: Mapping[TableName, Sequence[PreconditionError]]
    shapes: Mapping[TableName, Shape]

    @property
    def fit(self) -> Sequence[Table]:
        """The tables without refusals, also of later checks."""
        return [table for table in self.tables if table.name not in self.refusals]


def read_tables(connection: Connection, names: Sequence[TableName], choices: Choices = NO_CHOICES) -> list[Table]:
    """Read the tables, in the order of `names`.

    Raises TablesRefusedError if any of them does not exist or cannot be followed.
    """
    examined = examine(connection, names, choices)
    if examined.refusals:
        raise TablesRefusedError(chain.from_iterable(examined.refusals.values()))
    return list(examined.tables)


def examine(connection: Connection, names: Sequence[TableName], choices: Choices = NO_CHOICES) -> ExaminedTables:
    """Read the tables, and collect all reasons why any of them cannot be followed."""
    shapes = read_shapes(connection, names)
    results = {
        name: _ancestor_refusals(name, shapes[name], names) or to_table(name, shapes[name], choices)
        if name in shapes
        else [PreconditionError(f"no table {name} in the source", "correct source.tables")]
        for name in names
    }
    return ExaminedTables(
        [table for table in results.values() if isinstance(table, Table)],
        {name: refusals for name, refusals in results.items() if not isinstance(refusals, Table)},
        shapes,
    )


def list_tables(connection: Connection, own_schema: str) -> list[TableName]:
    """List the tables of the database, without partitions, Postgres's own tables and the toolkit's schema."""
    rows = connection.execute(read_sql("tables"), (own_schema,)).fetchall()
    return [TableName(*row) for row in rows]


def list_children(connection: Connection, names: Sequence[TableName]) -> dict[TableName, list[TableName]]:
    """List the tables that inherit from these, at any distance; partitions are none of them."""
    wanted = ([name.schema for name in names], [name.table for name in names])
    children = defaultdict[TableName, list[TableName]](list)
    for schema, table, of_schema, child in connection.execute(read_sql("children"), wanted):
        children[TableName(schema, table)].append(TableName(of_schema, child))
    return dict(children)


def _ancestor_refusals(name: TableName, shape: Shape, names: Sequence[TableName]) -> list[PreconditionError]:
    return [
        PreconditionError(f"{name} is a part of {whole}, under whose name its changes come", "leave one of them out")
        for whole in shape.within
        if whole in names
    ]


def to_table(name: TableName, shape: Shape, choices: Choices = NO_CHOICES) -> Table | list[PreconditionError]:
    """Make the table of a shape, or return all reasons why it cannot be followed."""
    # followers have no generated columns, since Postgres does not send them (manual, "Generated Column Replication")
    own = [column for column in shape.columns if not column.is_generated]
    key, known = tuple(choices.key(name)) or _key(shape), {found.oid: found for found in shape.types}
    # with its number: a column that is dropped and added again under its name is another one
    columns = [replace(types.to_column(a.name, a.type, a.modifier, known), number=a.number) for a in own]
    chosen, masks, where = choices.types_of(name), choices.masks_of(name), choices.wheres.get(name, "")
    identity = None if shape.identity is ReplicaIdentity.FULL else shape.key
    refusals = [
        *_relation_refusals(name, shape),
        *_name_refusals(name, shape),
        *_key_refusals(name, shape, choices.key(name)),
        *_choice_refusals(name, columns, key, chosen.named),
        *find_mask_refusals(name, columns, key, masks),
        *(find_filter_refusals(name, where, [column.name for column in columns], identity) if where else []),
    ]
    if refusals:
        return refusals
    out = choices.list_dropped(name)
    made = (
        apply_mask(_as_followed(column, chosen, is_key=column.name in key), masks.get(column.name))
        for column in columns
        if column.name not in out
    )
    return Table(name, tuple(made), key, tuple(column for column in columns if column.name in out), where)


def _as_followed(column: Column, choices: ColumnChoices, *, is_key: bool) -> Column:
    choice = types.find_choice(column, choices, is_key=is_key)
    found = types.apply_choice(column, choice) if choice else None
    return found or (types.to_key_column(column) if is_key else column)


def _choice_refusals(
    name: TableName, columns: Sequence[Column], key: Sequence[str], chosen: Mapping[str, ChosenType]
) -> Iterator[PreconditionError]:
    by_name = {column.name: column for column in columns}
    for column, choice in chosen.items():
        where = f"{name}: source.column_types names {column} as {choice}"
        if column not in by_name:
            yield PreconditionError(f"{where}, which it does not have", "correct source.column_types")
        elif types.apply_choice(by_name[column], choice) is None:
            yield PreconditionError(
                f"{where}, and its type is {by_name[column].type or by_name[column].kind}",
                "numeric can be text, double or decimal(p,s); date, timestamp, timestamptz, interval, vectors and"
                " geometries can be text",
            )
        elif column in key and (obstacle := types.find_key_obstacle(by_name[column], choice)):
            remedy = "take it out of source.column_types" if by_name[column].array else "choose decimal(p,s) or text"
            yield PreconditionError(f"{where}, and it is part of the key: {obstacle}", remedy)


def _key(shape: Shape) -> tuple[str, ...]:
    """The columns of the replica identity, by which the log identifies a row; empty if that is the whole row.

    A deferrable key does not count: inside a transaction, two rows may have the same one.
    """
    return shape.key if shape.key_immediate else ()


def find_other_keys(connection: Connection, names: Sequence[TableName], keys: Keys) -> dict[TableName, Key]:
    """Find the tables whose key is not their primary key, which Debezium would take; returns their keys."""
    shapes = read_shapes(connection, names).items()
    others: dict[TableName, Key] = {name: key for name, s in shapes if (key := _key(s)) and not s.key_primary}
    return others | {name: keys[name] for name in names if name in keys}


def find_confused_keys(
    connection: Connection, names: Sequence[TableName], keys: Keys
) -> dict[TableName, PreconditionError]:
    """Find the tables whose keys Debezium cannot tell: the later of two that have a column of one full name.

    To Debezium, column `b.c` of `a` and column `c` of `a.b` are both `a.b.c`, and what is the key of the one table
    becomes that of the other.
    """
    if not any("." in name.table for name in names):
        return {}
    owners = defaultdict[str, set[TableName]](set)
    for name, shape in read_shapes(connection, names).items():
        for column in shape.columns:
            owners[f"{name}.{column.name}"].add(name)
    refusals: dict[TableName, PreconditionError] = {}
    for name, key in find_other_keys(connection, names, keys).items():
        for part in key:
            for other in owners[f"{name}.{part}"] - {name}:
                refusals[max(name, other, key=names.index)] = PreconditionError(
                    f"{name}: Debezium cannot tell column {part} of its key from a column of {other}",
                    "leave one of the two tables out, or rename it or the column",
                )
    return refusals


def find_duplicate_keys(connection: Connection, keys: Keys) -> dict[TableName, PreconditionError]:
    """Find the chosen keys with duplicates; reads the tables. Raises UnreachableError for one that somebody locks."""
    refusals: dict[TableName, PreconditionError] = {}
    for name, key in keys.items():
        table, columns = sql.Identifier(name.schema, name.table), sql.SQL(", ").join(map(sql.Identifier, key))
        query = sql.SQL("SELECT FROM {} GROUP BY {} HAVING count(*) > 1 LIMIT 1").format(table, columns)
        if _has_rows(connection, name, query):
            refusals[name] = PreconditionError(
                f"{name}: source.keys names ({', '.join(key)}), which several rows have", "name further columns"
            )
    return refusals


def _has_rows(connection: Connection, table: TableName, query: sql.Composed) -> bool:
    try:
        with connection.transaction():
            connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(LOCK_PATIENCE)))
            return connection.execute(query).fetchone() is not None
    except psycopg.errors.LockNotAvailable:
        raise locked_error(f"{table} cannot be read", find_holders(connection, [table])) from None


def _relation_refusals(name: TableName, shape: Shape) -> Iterator[PreconditionError]:
    # one line is enough: the other checks are about tables whose rows are in the log
    if shape.kind is RelationKind.OTHER:
        yield PreconditionError(f"{name} is no table", "name the tables behind it, or leave it out")
        return
    yield from chain.from_iterable(_leaf_refusals(name, shape, leaf) for leaf in shape.leaves)
    if shape.persistence is not Persistence.PERMANENT:
        yield PreconditionError(f"{name} is not logged, so no change of it can be captured", "ALTER TABLE … SET LOGGED")
    if shape.kind is RelationKind.PARTITIONED and shape.identity is ReplicaIdentity.INDEX:
        yield PreconditionError(
            f"{name} is partitioned, and its replica identity is an index: that of each part may be another",
            "ALTER TABLE … REPLICA IDENTITY DEFAULT, or FULL, for the table and for each part",
        )
    # with the whole row in the log, rows need no key; without either, UPDATE and DELETE of a published table fail, as
    # the manual says of publications
    if shape.identity is ReplicaIdentity.NOTHING:
        yield PreconditionError(
            f"{name} has replica identity NOTHING, so no change or delete of its rows is sent",
            "ALTER TABLE … REPLICA IDENTITY DEFAULT, or FULL",
        )
    elif shape.identity is not ReplicaIdentity.FULL and not _key(shape):
        what = "a deferrable primary key" if shape.key else "no primary key"
        yield PreconditionError(
            f"{name} has {what}, and no other replica identity",
            "add a primary key, or ALTER TABLE … REPLICA IDENTITY FULL",
        )


def _key_refusals(name: TableName, shape: Shape, named_key: Sequence[str]) -> Iterator[PreconditionError]:
    if not named_key:
        return
    if shape.identity is not ReplicaIdentity.FULL:
        yield PreconditionError(
            f"{name} is followed by source.keys, and the log does not have its whole rows",
            "ALTER TABLE … REPLICA IDENTITY FULL",
        )
    possible = {column.name for column in shape.columns if column.not_null and not column.is_generated}
    if impossible := [column for column in named_key if column not in possible]:
        yield PreconditionError(
            f"{name}: source.keys names {', '.join(impossible)}, which it does not have, or which may be null",
            "ALTER TABLE … SET NOT NULL, or name other columns",
        )


def _leaf_refusals(name: TableName, shape: Shape, leaf: Leaf) -> Iterator[PreconditionError]:
    """Check a partition: its changes are logged with its own replica identity, and sent under the table's name."""
    if leaf.kind is not RelationKind.TABLE or leaf.persistence is not Persistence.PERMANENT:
        reason = "is not logged" if leaf.kind is RelationKind.TABLE else "is no table of this server"
        yield PreconditionError(
            f"{leaf.name}, a part of {name}, {reason}, so no change of it can be captured", "DETACH it, or SET LOGGED"
        )
    elif leaf.identity is not shape.identity:
        yield PreconditionError(
            f"{leaf.name}, a part of {name}, has another replica identity: {_IDENTITIES[leaf.identity]}, not"
            f" {_IDENTITIES[shape.identity]}",
            "ALTER TABLE … REPLICA IDENTITY for each part, which Postgres does not do by itself",
        )


def _name_refusals(name: TableName, shape: Shape) -> Iterator[PreconditionError]:
    """Check the names of columns.

    Debezium refuses columns that differ by case only, generated ones included. Delta's merge takes no backtick, and
    JSON escapes the other characters.
    """
    for column in (column.name for column in shape.columns if not column.is_generated):
        if _AWKWARD.search(column):
            yield PreconditionError(
                f"column {column!r} of {name} has a backtick, a double quote, a backslash or a control character in its"
                " name",
                "rename it, or leave the table out",
            )
    folded = defaultdict[str, list[str]](list)
    for column in (column.name for column in shape.columns):
        folded[column.lower()].append(column)
    for alike in (names for names in folded.values() if len(names) > 1):
        yield PreconditionError(
            f"columns {' and '.join(map(repr, alike))} of {name} differ by case only, which Debezium does not take",
            "rename one, or leave the table out",
        )
