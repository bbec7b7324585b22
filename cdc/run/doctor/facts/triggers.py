"""The event triggers and the hook of migrations as they are; without triggers, whether the role may make some."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import Connection, sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source import schema_history
from cdc.core.text.error_text import pick_first_line

_QUERY: Final = """
SELECT jsonb_build_object('name', t.evtname, 'enabled', t.evtenabled, 'function', p.proname, 'definer', p.prosecdef,
         'config', p.proconfig, 'owner', pg_get_userbyid(p.proowner), 'body', p.prosrc,
         'owner_may_write', has_schema_privilege(p.proowner, n.oid, 'USAGE')
           AND has_table_privilege(p.proowner, c.oid, 'INSERT') AND has_table_privilege(p.proowner, c.oid, 'UPDATE'))
  FROM pg_event_trigger t JOIN pg_proc p ON p.oid = t.evtfoid JOIN pg_namespace n ON n.oid = p.pronamespace
  LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'shapes'
 WHERE n.nspname = %s"""
_TRIAL: Final = "cdc_doctor_trial"


@dataclass(frozen=True, slots=True)
class TriggerFacts:
    """`are_whole`: all are installed and fire for everybody. `refused`: why the role may make none; None if it may, or
    needs not. `has_hook`: there is the function that a migration calls."""

    rows: Sequence[Mapping[str, Any]] = ()
    are_whole: bool = False
    refused: str | None = None
    has_hook: bool = False


def read_triggers(connection: Connection, source: SourceSettings) -> TriggerFacts:
    """Read them; where they are missing, try whether the role may make one, in a transaction that is rolled back."""
    rows = [row[0] for row in connection.execute(_QUERY, (source.heartbeat_schema,)).fetchall()]
    are_whole = schema_history.has_triggers(connection, source)
    refused = None if are_whole else _try_to_make(connection)
    return TriggerFacts(rows, are_whole, refused, schema_history.has_function(connection, source))


def _try_to_make(connection: Connection) -> str | None:
    """Postgres's reason why this role may not make an event trigger; None if it may."""
    # in pg_temp: the trial needs no right to a schema
    make = "CREATE FUNCTION pg_temp.{}() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'"
    on = "CREATE EVENT TRIGGER {} ON ddl_command_end EXECUTE FUNCTION pg_temp.{}()"
    name = sql.Identifier(_TRIAL)
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("SET TRANSACTION READ WRITE")
            connection.execute(sql.SQL(make).format(name))
            connection.execute(sql.SQL(on).format(name, name))
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported) as error:
        return pick_first_line(error)
    except psycopg.errors.LockNotAvailable:
        return None
    return None
