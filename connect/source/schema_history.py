"""The schema history: a captured table of the source with the current shape of each table.

Change topics have no DDL, and a default on old rows, or `ALTER TYPE … USING`, changes rows without change events. Event
triggers write a table's new shape in the transaction that changes it, so the log has it in the right place (Postgres
manual, "Event Triggers"; *Designing Data-Intensive Applications*, ch. 11: one log decides the order of all).
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psycopg
import stamina
from msgspec.structs import replace
from psycopg import Connection, sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source.event_triggers import (
    FILES_TABLE,
    KINDS,
    NOTHING,
    fill_sql,
    make_function_body,
    make_trigger_body,
)
from cdc.connect.source.registration import HISTORY
from cdc.connect.source.relation import RelationKind, parse_shape, read_shapes
from cdc.core.errors import PreconditionError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.core.text.error_text import pick_first_line
from cdc.postgres.values import read_value

NOTE_SECONDS: Final = 60.0
"""How long to wait for locked tables."""
SHAPES_NOW: Final = "shapes_now"
"""The function that a migration calls where event triggers are not allowed."""
# SECURITY DEFINER: any role may run DDL; the fixed search_path keeps it from calling other people's functions
_MAKE: Final = (
    "CREATE OR REPLACE FUNCTION {{}}() RETURNS {returns} LANGUAGE plpgsql SECURITY DEFINER"
    " SET search_path = pg_catalog, pg_temp AS {{}}"
)
# below deadlock_timeout (1 s), so that a deadlock always ends our session and never a user's command
_SHORT_WAIT: Final = "SET LOCAL lock_timeout = '200ms'"
TRIGGERS: Final = {"note_shapes": "ddl_command_end", "note_rewrite": "table_rewrite"}
"""Function → the event that calls it."""
_LONGEST, _DIGEST = 40, 16
"""Characters of our schema's name in that of a trigger, and those of them that are a digest if it is longer."""

_COLUMNS: Final = (
    Column("schema", Kind.TEXT),
    Column("table", Kind.TEXT),
    Column("relation", Kind.BIGINT),
    Column("shape", Kind.TEXT),
    Column("rewritten_by", Kind.BIGINT),
)


def history_table(source: SourceSettings) -> Table:
    """The table of shapes as captured: schema and table (text, key), relation (bigint), shape (text), rewritten_by."""
    return Table(TableName(source.heartbeat_schema, HISTORY), _COLUMNS, ("schema", "table"))


def list_trigger_names(source: SourceSettings) -> list[str]:
    return [trigger.name for trigger in _triggers(source)]


def list_missing_triggers(connection: Connection, source: SourceSettings) -> list[str]:
    """The event triggers that are not installed and enabled in this version."""
    return [trigger.name for trigger in _find_missing(connection, source)]


def may_make_triggers(connection: Connection) -> bool:
    """May this role install event triggers, as far as Postgres itself decides? A provider may allow it all the same."""
    return bool(read_value(connection, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"))


def has_triggers(connection: Connection, source: SourceSettings) -> bool:
    """Are all event triggers installed and enabled, in this version?"""
    return not _find_missing(connection, source)


def install_triggers(connection: Connection, source: SourceSettings) -> str | None:
    """Install the event triggers, and write the current shapes; returns Postgres's reason if that is not allowed.

    From then on every schema change of a published table is written in its own transaction. Raises PreconditionError
    when a table is locked for a minute.
    """
    missing = _find_missing(connection, source)
    reason = None
    try:
        with connection.transaction():
            for trigger in missing:
                for statement in _make_sql(trigger):
                    connection.execute(statement)
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported) as error:
        reason = pick_first_line(error)
    # after the triggers: they note all later changes, and compare them with these shapes
    locked = psycopg.errors.LockNotAvailable
    try:
        for attempt in stamina.retry_context(on=locked, attempts=None, timeout=NOTE_SECONDS, wait_max=1.0):
            with attempt:
                _note(connection, source, KINDS)
    except locked as error:
        raise PreconditionError(
            f"somebody has had a table of the source locked for {NOTE_SECONDS:.0f} s ({error})", "end that, then again"
        ) from None
    return reason


def note_published(connection: Connection, source: SourceSettings, names: Sequence[TableName]) -> None:
    """Note that these tables are published again, if there are no event triggers.

    Otherwise the next note would take the publication for a change, and they would be copied once more.
    """
    if has_triggers(connection, source):
        return
    schemas, tables = sql.Literal([name.schema for name in names]), sql.Literal([name.table for name in names])
    of_kinds = sql.Literal(list(KINDS))
    apart = fill_sql("apart", source, kinds=of_kinds, schemas=schemas, tables=tables)
    # a session that has one locked notes it itself
    with suppress(psycopg.errors.LockNotAvailable), connection.transaction():
        connection.execute(_SHORT_WAIT)
        connection.execute(fill_sql("note", source, apart=apart, commanded=NOTHING))


def find_announced(connection: Connection, source: SourceSettings) -> set[TableName]:
    """Find the tables whose current shape a migration has noted by `shapes_now`: the log has it in its place."""
    if not has_function(connection, source):
        return set()
    rows = connection.execute(fill_sql("announced", source)).fetchall()
    noted = {TableName(schema, table): parse_shape(shape) for schema, table, shape in rows}
    now = read_shapes(connection, list(noted))
    # without publications, which `now` does not have
    return {
        name
        for name, shape in noted.items()
        if name in now and replace(shape, publications=None, moved=()) == now[name]
    }


def install_function(connection: Connection, source: SourceSettings) -> bool:
    """Install the function `shapes_now()`, which a migration calls if there are no event triggers.

    Returns False if the role may not create it.
    """
    body = make_function_body(SHAPES_NOW, source)
    try:
        with connection.transaction():
            if not has_function(connection, source, body):
                for statement in make_function_sql(source):
                    connection.execute(statement)
            connection.execute(fill_sql("files", source))
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


def make_function_sql(source: SourceSettings) -> list[sql.Composed]:
    """Make the statements that install the function which a migration calls."""
    name, table = (sql.Identifier(source.heartbeat_schema, each) for each in (SHAPES_NOW, FILES_TABLE))
    files = "CREATE TABLE IF NOT EXISTS {} (relation bigint PRIMARY KEY, file bigint, told text NOT NULL)"
    body = make_function_body(SHAPES_NOW, source)
    return [
        sql.SQL(files).format(table),
        sql.SQL(_MAKE.format(returns="void")).format(name, sql.Literal(body)),
    ]


def has_function(connection: Connection, source: SourceSettings, body: str | None = None) -> bool:
    """Is the function there that a migration calls? `body`: in exactly this version."""
    query = (
        "SELECT p.prosrc FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
        " WHERE n.nspname = %s AND p.proname = %s"
    )
    found = read_value(connection, query, source.heartbeat_schema, SHAPES_NOW)
    return found is not None and body in (None, found)


def note_partitions(connection: Connection, source: SourceSettings) -> None:
    """Note partitions with new files: a TRUNCATE of a partition fires no event trigger.

    Postgres does not send it either (manual, "CREATE PUBLICATION", publish_via_partition_root).
    """
    # a locked table is noted by the session that has locked it, or by the next call
    with suppress(psycopg.errors.LockNotAvailable):
        _note(connection, source, (RelationKind.PARTITIONED,))
        if has_function(connection, source):
            connection.execute(fill_sql("files", source))


def _note(connection: Connection, source: SourceSettings, kinds: Sequence[RelationKind]) -> None:
    of_kinds = sql.Literal(list(kinds))
    with connection.transaction():
        connection.execute(_SHORT_WAIT)
        free = connection.execute(fill_sql("free", source, kinds=of_kinds)).fetchall()
        if free or kinds == KINDS:
            schemas, tables = (sql.Literal([row[at] for row in free]) for at in range(2))
            apart = fill_sql("apart", source, kinds=of_kinds, schemas=schemas, tables=tables)
            connection.execute(fill_sql("note", source, apart=apart, commanded=NOTHING))


@dataclass(frozen=True, slots=True)
class _Trigger:
    name: str
    event: str
    function: sql.Identifier
    body: str


def _triggers(source: SourceSettings) -> Iterator[_Trigger]:
    for function, event in TRIGGERS.items():
        # an event trigger belongs to the database and has no schema, so its name has ours
        name = f"{_shorten(source.heartbeat_schema)}_{function}"
        yield _Trigger(
            name, event, sql.Identifier(source.heartbeat_schema, function), make_trigger_body(function, source)
        )


def _shorten(schema: str) -> str:
    """A schema's name, with room for a function's within 63 bytes; no other schema's is shortened to the same."""
    if len(schema) <= _LONGEST:
        return schema
    # no schema that the settings take has a tilde
    digest = hashlib.sha256(schema.encode()).hexdigest()[:_DIGEST]
    return f"{schema[: _LONGEST - _DIGEST - 1]}~{digest}"


def _find_missing(connection: Connection, source: SourceSettings) -> "list[_Trigger]":
    return [trigger for trigger in _triggers(source) if not _is_installed(connection, source, trigger)]


def _is_installed(connection: Connection, source: SourceSettings, trigger: _Trigger) -> bool:
    query = (
        "SELECT p.prosrc FROM pg_event_trigger t JOIN pg_proc p ON p.oid = t.evtfoid JOIN pg_namespace n"
        " ON n.oid = p.pronamespace WHERE t.evtname = %s AND t.evtenabled = 'A' AND n.nspname = %s"
    )
    return bool(read_value(connection, query, trigger.name, source.heartbeat_schema) == trigger.body)


def make_trigger_sql(source: SourceSettings) -> list[sql.Composed]:
    """Make the statements that install all event triggers."""
    return [statement for trigger in _triggers(source) for statement in _make_sql(trigger)]


def _make_sql(trigger: _Trigger) -> Iterator[sql.Composed]:
    name = sql.Identifier(trigger.name)
    make = sql.SQL(_MAKE.format(returns="event_trigger"))
    yield make.format(trigger.function, sql.Literal(trigger.body))
    yield sql.SQL("DROP EVENT TRIGGER IF EXISTS {}").format(name)
    on = "CREATE EVENT TRIGGER {} ON " + trigger.event + " EXECUTE FUNCTION {}()"
    yield sql.SQL(on).format(name, trigger.function)
    # ALWAYS: also for sessions of a replication tool (session_replication_role = replica)
    yield sql.SQL("ALTER EVENT TRIGGER {} ENABLE ALWAYS").format(name)
