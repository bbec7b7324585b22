"""The schema history: a table of the source whose rows say what shape each table has, and which is captured itself.

DDL is in no change topic, and a default on old rows, or `ALTER TYPE … USING`, changes rows without a message. Event
triggers write a table's new shape down in the transaction that changed it, so that it comes by the log in its place
(Postgres manual, "Event Triggers"; *Designing Data-Intensive Applications*, ch. 11: one log decides the order of all).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import Connection, sql

from cdc.core.table import Column, Kind, Table, TableName
from connect.registration import HISTORY, PIPELINES
from connect.settings import SourceSettings
from connect.shape import SHAPES

TRIGGERS: Final = {"note_shapes": "ddl_command_end", "note_rewrite": "table_rewrite"}
"""Functions, and the events that call them."""

_COLUMNS: Final = (
    Column("schema", Kind.TEXT),
    Column("table", Kind.TEXT),
    Column("relation", Kind.BIGINT),
    Column("shape", Kind.TEXT),
    Column("rewritten_by", Kind.BIGINT),
)

# Only what differs is touched: a row that is written is locked until its transaction ends, and other tables' commands
# shall not wait for that.
_NOTE: Final = """INSERT INTO {history} (schema, "table", relation, shape, rewritten_by)
SELECT now.schema, now."table", now.relation, now.shape::text,
       CASE WHEN {moved} THEN {current} ELSE coalesce(s.rewritten_by, 0) END
  FROM ({shapes} WHERE n.nspname <> {own} AND c.relpersistence <> 't' AND c.relkind IN ('r', 'p') AND (c.oid IN (
          SELECT r.prrelid FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
            JOIN {pipelines} l ON l.publication = p.pubname{commanded})){apart}) AS now
  LEFT JOIN {history} s USING (schema, "table")
 WHERE s.shape IS DISTINCT FROM now.shape::text OR s.relation <> now.relation
ON CONFLICT (schema, "table") DO UPDATE
   SET relation = EXCLUDED.relation, shape = EXCLUDED.shape, rewritten_by = EXCLUDED.rewritten_by"""

_CURRENT: Final = "pg_current_xact_id()::text::numeric % 4294967296"

# Rows came or went without a message: with a partition that is not empty, by a TRUNCATE of one, which is not sent, or
# with a table that is sent under another's name from now on.
_MOVED: Final = """(s.relation = now.relation AND (
         s.shape::jsonb->'within' IS DISTINCT FROM now.shape->'within'
         OR EXISTS (
            SELECT FROM jsonb_to_recordset(s.shape::jsonb->'leaves') AS was(relation oid, file oid)
             WHERE NOT EXISTS (SELECT FROM jsonb_to_recordset(now.shape->'leaves') AS l(relation oid, file oid)
                                WHERE l.relation = was.relation AND l.file = was.file))
         OR EXISTS (
            SELECT FROM jsonb_to_recordset(now.shape->'leaves') AS l(relation oid)
             WHERE pg_relation_size(l.relation) > 0
               AND NOT EXISTS (SELECT FROM jsonb_to_recordset(s.shape::jsonb->'leaves') AS was(relation oid)
                                WHERE was.relation = l.relation))))"""

_KINDS: Final = ("r", "p")
# Who is about to write a row of the history has a newer shape for it than anybody else sees.
_FREE: Final = """SELECT schema, "table" FROM {history} WHERE shape::jsonb->>'kind' = ANY({kinds})
   FOR UPDATE SKIP LOCKED"""
_APART: Final = """ AND c.relkind = ANY({kinds}) AND (
       (n.nspname, c.relname) IN (SELECT * FROM unnest({schemas}::text[], {tables}::text[]))
       OR NOT EXISTS (SELECT FROM {history} h WHERE h.schema = n.nspname AND h."table" = c.relname))"""

_COMMANDED: Final = """
          UNION SELECT objid FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table'"""

# A failure here is a warning, never the failure of somebody's command. Reasons for a rewrite: 2 is a default, 4 a type;
# persistence (1) and access method (8) leave values as they are.
_FUNCTIONS: Final = {
    "note_shapes": """BEGIN
  IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands())
     AND NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name IS DISTINCT FROM 'pg_temp') THEN
    RETURN;
  END IF;
  DELETE FROM {history} s WHERE NOT EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = s.relation::oid AND n.nspname = s.schema AND c.relname = s."table");
  {note};
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'cdc: a change of a table''s schema was not noted: %', SQLERRM;
END""",
    "note_rewrite": """BEGIN
  IF pg_event_trigger_table_rewrite_reason() & 6 <> 0 THEN
    UPDATE {history} SET rewritten_by = {current}
     WHERE relation = pg_event_trigger_table_rewrite_oid();
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'cdc: a change of a table''s rows was not noted: %', SQLERRM;
END""",
}


def history_of(source: SourceSettings) -> Table:
    """The table of shapes, as the log has it."""
    return Table(TableName(source.heartbeat_schema, HISTORY), _COLUMNS, ("schema", "table"))


def is_kept(connection: Connection, source: SourceSettings) -> bool:
    """Do event triggers keep the history? An `ALTER EVENT TRIGGER … DISABLE` ends that."""
    return all(_stands(connection, source, each) for each in _triggers(source))


def keep(connection: Connection, source: SourceSettings) -> str | None:
    """Have the history kept from now on; says what kept it from being so, or None.

    Every change of a published table's schema is then written down in the transaction that makes it.
    """
    missing = [each for each in _triggers(source) if not _stands(connection, source, each)]
    lacking = None
    try:
        with connection.transaction():
            for each in missing:
                _put(connection, each)
    except psycopg.errors.InsufficientPrivilege as error:
        lacking = str(error).strip().partition("\n")[0]
    # behind the triggers: what changes from here on is noted, and this is what it is compared with
    _note(connection, source, _KINDS)
    return lacking


def note_partitions(connection: Connection, source: SourceSettings) -> None:
    """Write down which partitions have other files than the history says: no trigger hears of a TRUNCATE of one, and
    Postgres sends none (manual, "CREATE PUBLICATION", publish_via_partition_root).
    """
    _note(connection, source, ("p",))


def _note(connection: Connection, source: SourceSettings, kinds: Sequence[str]) -> None:
    of_kinds = sql.Literal(list(kinds))
    with connection.transaction():
        free = connection.execute(_filled(_FREE, source, kinds=of_kinds)).fetchall()
        if free or kinds == _KINDS:
            schemas, tables = (sql.Literal([row[at] for row in free]) for at in range(2))
            apart = _filled(_APART, source, kinds=of_kinds, schemas=schemas, tables=tables)
            connection.execute(_filled(_NOTE, source, commanded=sql.SQL(""), apart=apart))


@dataclass(frozen=True, slots=True)
class _Trigger:
    """An event trigger, and the function that it calls."""

    name: str
    event: str
    function: sql.Identifier
    body: str


def _triggers(source: SourceSettings) -> Iterator[_Trigger]:
    for function, event in TRIGGERS.items():
        note = _filled(_NOTE, source, commanded=sql.SQL(_COMMANDED), apart=sql.SQL(""))
        body = _filled(_FUNCTIONS[function], source, note=note).as_string()
        # event triggers are the database's, and in no schema
        name = f"{source.heartbeat_schema[:40]}_{function}"
        yield _Trigger(name, event, sql.Identifier(source.heartbeat_schema, function), body)


def _stands(connection: Connection, source: SourceSettings, trigger: _Trigger) -> bool:
    row = connection.execute(
        "SELECT p.prosrc FROM pg_event_trigger t JOIN pg_proc p ON p.oid = t.evtfoid JOIN pg_namespace n"
        " ON n.oid = p.pronamespace WHERE t.evtname = %s AND t.evtenabled = 'A' AND n.nspname = %s",
        (trigger.name, source.heartbeat_schema),
    ).fetchone()
    return row is not None and row[0] == trigger.body


def _put(connection: Connection, trigger: _Trigger) -> None:
    name = sql.Identifier(trigger.name)
    # as its owner, whoever runs the command; what it looks up is found in the system's schema only
    make = (
        "CREATE OR REPLACE FUNCTION {}() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER"
        " SET search_path = pg_catalog, pg_temp AS {}"
    )
    connection.execute(sql.SQL(make).format(trigger.function, sql.Literal(trigger.body)))
    connection.execute(sql.SQL("DROP EVENT TRIGGER IF EXISTS {}").format(name))
    on = "CREATE EVENT TRIGGER {} ON " + trigger.event + " EXECUTE FUNCTION {}()"
    connection.execute(sql.SQL(on).format(name, trigger.function))
    # also for commands that a replication tool runs, as `session_replication_role` has it
    connection.execute(sql.SQL("ALTER EVENT TRIGGER {} ENABLE ALWAYS").format(name))


def _filled(text: str, source: SourceSettings, **further: sql.Composable) -> sql.Composed:
    schema = source.heartbeat_schema
    names = {"history": HISTORY, "pipelines": PIPELINES}
    identifiers = {key: sql.Identifier(schema, name) for key, name in names.items()}
    parts = {"shapes": SHAPES, "moved": _MOVED, "current": _CURRENT}
    own = {name: sql.SQL(part) for name, part in parts.items()}
    return sql.SQL(text).format(**identifiers, **own, own=sql.Literal(schema), **further)
