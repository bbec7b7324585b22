"""The SQL that writes the schema history, in event triggers or instead of them (`sql/event_triggers`)."""

from typing import Final

from psycopg import sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source.heartbeat import HEARTBEAT
from cdc.connect.source.registration import HISTORY, PIPELINES
from cdc.connect.source.relation import RelationKind
from cdc.connect.source.sql.queries import read_sql

FILES_TABLE: Final = "files"
"""The table with each table's file number: without event triggers, a new number shows a rewrite."""
KINDS: Final = (RelationKind.TABLE, RelationKind.PARTITIONED)
NOTHING: Final = sql.SQL("")
# pgoutput sends the lower 32 bits of a transaction's id
_CURRENT: Final = "pg_current_xact_id()::text::numeric % 4294967296"
"""This transaction, as the log has it."""


def fill_sql(name: str, source: SourceSettings, **further: sql.Composable) -> sql.Composed:
    """Read `sql/event_triggers/<name>.sql`, and fill the toolkit's tables and `further` parts into it."""
    schema = source.heartbeat_schema
    names = {"history": HISTORY, "pipelines": PIPELINES, "files": FILES_TABLE}
    identifiers = {key: sql.Identifier(schema, name) for key, name in names.items()}
    parts = {
        "sent": _read("sent").format(**identifiers),
        "shapes": read_sql("shapes"),
        "moved": _read("moved"),
        "current": sql.SQL(_CURRENT),
        "own": sql.Literal(schema),
        "beats": sql.Literal(HEARTBEAT),
    }
    return _read(name).format(**identifiers, **parts, **further)


def make_function_body(name: str, source: SourceSettings, commanded: sql.Composable = NOTHING) -> str:
    """Make the body of a function that notes shapes; `commanded` names further tables to note."""
    prune = fill_sql("prune", source, unreadable=fill_sql("unreadable", source))
    note = fill_sql("note", source, apart=NOTHING, commanded=commanded)
    return fill_sql(name, source, prune=prune, note=note).as_string()


def make_trigger_body(name: str, source: SourceSettings) -> str:
    """Make the body of an event trigger's function, which also notes the tables of the user's command."""
    return make_function_body(name, source, _read("commanded"))


def _read(name: str) -> sql.SQL:
    return read_sql(f"event_triggers/{name}")
