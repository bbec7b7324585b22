"""Parts of tables: the columns and rows that the publication is to send, by the settings, and those that it sends."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import Connection, sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source.relation import ReplicaIdentity, Shape, read_shapes
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName

_SENT: Final = """
SELECT n.nspname, c.relname, pg_get_expr(r.prqual, r.prrelid),
       ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (r.prattrs::int2[])
              ORDER BY a.attnum)
  FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
  JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE p.pubname = %s AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)"""
_SAME: Final[set[tuple[TableName, str, str]]] = set()
"""Conditions that were compared, and are the same: of a table, as the file and as the source writes them."""


@dataclass(frozen=True, slots=True)
class PublishedPart:
    """What is sent of a table: `columns`, empty if all; the rows `where`, empty if all. `dropped`: not to be sent."""

    columns: tuple[str, ...] = ()
    where: str = ""
    dropped: tuple[str, ...] = ()


Parts = Mapping[TableName, PublishedPart]
WHOLE: Final = PublishedPart()


def find_parts(connection: Connection, source: SourceSettings) -> dict[TableName, PublishedPart]:
    """What the settings let the publication send of those tables of which it does not send all.

    Columns are left out by the publication unless the log has whole rows (REPLICA IDENTITY FULL), which Postgres does
    not let it cut: then Debezium leaves them out.
    """
    choices = source.choices
    names = sorted({*choices.wheres, *(name for name in choices.masks if choices.list_dropped(name))})
    shapes = read_shapes(connection, names) if names else {}
    return {
        name: _make_part(shape, choices.list_dropped(name), choices.wheres.get(name, ""))
        for name, shape in shapes.items()
    }


def read_sent_parts(connection: Connection, publication: str) -> dict[TableName, PublishedPart]:
    """The tables of the publication of which it does not send all, and what it sends."""
    rows = connection.execute(_SENT, (publication,)).fetchall()
    return {TableName(schema, table): PublishedPart(tuple(names), where or "") for schema, table, where, names in rows}


def find_wrong_parts(connection: Connection, sent: Parts, wanted: Parts) -> list[TableName]:
    """The published tables of which other rows are sent than wanted, or columns that are not wanted."""
    return [
        name for name, part in sorted(sent.items()) if not is_sent_as(connection, name, part, wanted.get(name, WHOLE))
    ]


def is_sent_as(connection: Connection, name: TableName, sent: PublishedPart, wanted: PublishedPart) -> bool:
    """Is this part sent as it is wanted? A new column may be missing in it: the schema's change tells that."""
    is_cut = bool(sent.columns) == bool(wanted.columns) and not {*sent.columns} & {*wanted.dropped}
    return is_cut and _is_same_condition(connection, name, sent.where, wanted.where)


def format_part(part: PublishedPart) -> sql.Composable:
    """Write what stands behind a table's name in a publication."""
    columns = sql.SQL(" ({})").format(sql.SQL(", ").join(map(sql.Identifier, part.columns)))
    where = sql.SQL(" WHERE (" + part.where + ")")
    return sql.Composed([*([columns] if part.columns else []), *([where] if part.where else [])])


def check_conditions(
    connection: Connection, source: SourceSettings, names: Sequence[TableName]
) -> dict[TableName, PreconditionError]:
    """Why the source refuses the conditions of some of these tables, before anything is made; leaves nothing behind."""
    wheres = source.choices.wheres
    refusals = {}
    for name in names:
        try:
            if name in wheres:
                _write_as_source(connection, name, wheres[name])
                _try_publication(connection, name, wheres[name])
        except psycopg.Error as error:
            if connection.broken:
                raise
            why = " ".join(filter(None, (error.diag.message_primary, error.diag.message_detail)))
            what = f"{name}: the source does not take source.where: {why}"
            remedy = "correct source.where"
            if isinstance(error, psycopg.errors.InsufficientPrivilege):
                remedy = "GRANT TEMPORARY ON DATABASE … to this role: conditions are compared by a table of no rows"
            refusals[name] = PreconditionError(what, remedy)
    return refusals


def _try_publication(connection: Connection, name: TableName, condition: str) -> None:
    """Let the source say what it has against a condition, if this role may make publications of the table."""
    listed = sql.Composed([sql.Identifier(name.schema, name.table), format_part(PublishedPart((), condition))])
    with (
        suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.LockNotAvailable),
        connection.transaction(force_rollback=True),
    ):
        connection.execute("SET TRANSACTION READ WRITE")
        connection.execute("SET LOCAL lock_timeout = '200ms'")
        make = "CREATE PUBLICATION cdc_condition FOR TABLE ONLY {} WITH (publish_via_partition_root = true)"
        connection.execute(sql.SQL(make).format(listed))


def _make_part(shape: Shape, dropped: Sequence[str], where: str) -> PublishedPart:
    sent = [column.name for column in shape.columns if not column.is_generated and column.name not in dropped]
    is_cut = dropped and shape.identity is not ReplicaIdentity.FULL
    return PublishedPart(tuple(sent), where, tuple(dropped)) if is_cut else PublishedPart((), where)


def _is_same_condition(connection: Connection, name: TableName, sent: str, wanted: str) -> bool:
    if not (sent and wanted) or (name, wanted, sent) in _SAME:
        return bool(sent) == bool(wanted)
    try:
        is_same = _write_as_source(connection, name, wanted) == sent
    except psycopg.OperationalError:
        # locked, cancelled, or no longer there: that says nothing of the condition
        raise
    except psycopg.Error:
        # the column is renamed, or has another type: the condition in the publication is not the file's any more
        return False
    if is_same:
        _SAME.add((name, wanted, sent))
    return is_same


def _write_as_source(connection: Connection, name: TableName, condition: str) -> str:
    """The condition as the source writes it once it is read: by a table of no rows, which is gone behind it."""
    with connection.transaction(force_rollback=True):
        # a doctor's session is read-only, and this is gone behind it
        connection.execute("SET TRANSACTION READ WRITE")
        table = sql.Identifier(name.schema, name.table)
        make = sql.SQL("CREATE TEMPORARY TABLE cdc_condition (LIKE {}, CONSTRAINT cdc_condition CHECK (").format(table)
        connection.execute(make + sql.SQL(condition + "))"))
        found = (
            "SELECT pg_get_expr(conbin, conrelid) FROM pg_constraint WHERE conrelid = 'pg_temp.cdc_condition'::regclass"
        )
        row = connection.execute(found + " AND contype = 'c'").fetchone()
        assert row is not None
        return str(row[0])
