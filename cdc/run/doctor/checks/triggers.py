"""The event triggers, which write each change of a schema into the log, and what does so without them."""

from collections.abc import Iterator
from typing import Final

from cdc.connect.source import schema_history
from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.fixes import JointStatement, quote
from cdc.run.doctor.parts import AskedParts
from cdc.run.doctor.providers import SUPABASE

_SEARCH_PATH: Final = "search_path=pg_catalog, pg_temp"
_MISSES: Final = "polling misses changes that are undone between two looks, and rows that a command rewrites"


@check("triggers.allowed", Severity.WARNING, _MISSES)
def find_refusal(parts: AskedParts) -> Iterator[Fault]:
    """The role may make event triggers, which is tried in a transaction that is rolled back, or they are there."""
    if (refused := parts.source.triggers.refused) is None:
        return
    schema = parts.settings.source.heartbeat_schema
    remedy = (
        f"end each migration with SELECT {schema}.shapes_now(), in its own transaction; or let a superuser run"
        " `cdc doctor --role-sql`"
    )
    yield Fault("event triggers", f"role {parts.settings.source.user} may make none: {refused}", remedy)


@check("triggers.hook", Severity.WARNING, "without event triggers nothing else tells of a change in its place")
def find_missing_hook(parts: AskedParts) -> Iterator[Fault]:
    """Where event triggers are not allowed, the function is there that a migration calls."""
    found = parts.source.triggers
    if found.refused is not None and not found.has_hook and parts.source.registered:
        source = parts.settings.source
        statements = [statement.as_string() for statement in schema_history.make_function_sql(source)]
        grant = quote(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {}", (source.heartbeat_schema, "files"), source.user
        )
        what = f"there is no function {source.heartbeat_schema}.shapes_now()"
        fixes = tuple(map(JointStatement, (*statements, grant)))
        yield Fault("shapes_now", what, "`cdc bootstrap` makes it, or `cdc doctor --fix-sql` prints it", fixes)


@check("triggers.whole", Severity.WARNING, _MISSES)
def find_missing(parts: AskedParts) -> Iterator[Fault]:
    """A pipeline that has begun has its event triggers, in this version, and they fire for everybody."""
    found = parts.source.triggers
    if parts.source.registered and not found.are_whole and found.refused is None:
        disabled = [row["name"] for row in found.rows if row["enabled"] != "A"]
        what = (
            f"event trigger {', '.join(disabled)} does not always fire"
            if disabled
            else "event triggers are missing or old"
        )
        alter = tuple(JointStatement(quote("ALTER EVENT TRIGGER {} ENABLE ALWAYS", name)) for name in disabled)
        yield Fault("event triggers", what, "`cdc bootstrap` makes them anew", alter)


@check(
    "triggers.guarded", Severity.WARNING, "whoever runs DDL could have the function's owner run a function of theirs"
)
def find_unguarded(parts: AskedParts) -> Iterator[Fault]:
    """Their functions run as their owner, with a fixed search_path."""
    schema = parts.settings.source.heartbeat_schema
    for row in parts.source.triggers.rows:
        if _SEARCH_PATH not in (row["config"] or ()) or not row["definer"]:
            alter = quote(
                "ALTER FUNCTION {}() SECURITY DEFINER SET search_path = pg_catalog, pg_temp", (schema, row["function"])
            )
            yield Fault(
                row["function"],
                f"function {schema}.{row['function']} has lost its guard",
                alter,
                (JointStatement(alter),),
            )


@check("triggers.owner", Severity.ERROR, "a command that alters a followed table would fail", at_bootstrap=False)
def find_weak_owner(parts: AskedParts) -> Iterator[Fault]:
    """The owner of their functions may write the shapes."""
    schema = parts.settings.source.heartbeat_schema
    for row in parts.source.triggers.rows:
        if row["owner_may_write"] is False:
            use = quote("GRANT USAGE ON SCHEMA {} TO {}", schema, row["owner"])
            grant = quote("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {} TO {}", schema, row["owner"])
            what = f"role {row['owner']}, who owns function {schema}.{row['function']}, may not write {schema}.shapes"
            yield Fault(row["function"], what, f"{use}; {grant}", (JointStatement(use), JointStatement(grant)))


@check(
    "triggers.publication",
    Severity.NOTE,
    "a table that somebody takes out of the publication for a while is noticed by polling only",
)
def find_deaf(parts: AskedParts) -> Iterator[Fault]:
    """They fire for ALTER PUBLICATION, too."""
    if parts.provider is SUPABASE and parts.source.triggers.are_whole:
        yield Fault(
            "event triggers", "they do not fire for ALTER PUBLICATION on Supabase", "alter it by `cdc bootstrap` only"
        )
