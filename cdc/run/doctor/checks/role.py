"""What the role in `source.user` may do, and no more than that."""

from collections.abc import Iterator
from typing import Final

from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.facts.source import may_replicate
from cdc.run.doctor.fixes import JointStatement, RoleRight, quote
from cdc.run.doctor.parts import AskedParts

_SOON_DAYS: Final = 30
_SESSIONS: Final = 12
_HIDDEN: Final = "use a role with BYPASSRLS"


@check("role.replication", Severity.ERROR, "a slot is made and read with that right only")
def find_replication(parts: AskedParts) -> Iterator[Fault]:
    """The role may replicate."""
    if not may_replicate(parts.source.role):
        user = parts.settings.source.user
        what, remedy = f"role {user} has no right to replicate", parts.provider.allow_replication(user)
        yield Fault(user, what, remedy, (RoleRight(user),))


@check("role.reads_tables", Severity.ERROR, "a copy reads every row of every table", at_bootstrap=False)
def find_unread(parts: AskedParts) -> Iterator[Fault]:
    """The role may use the schemas and read the tables, partitions included."""
    for table, refusal in parts.tables.unreadable.items():
        if refusal.remedy != _HIDDEN:
            yield Fault.of(str(table), refusal, *map(JointStatement, parts.tables.grants))


@check("role.row_security", Severity.ERROR, "the log has rows that the copy would leave out", at_bootstrap=False)
def find_hidden_rows(parts: AskedParts) -> Iterator[Fault]:
    """No policy hides rows of the tables from the role."""
    for table, refusal in parts.tables.unreadable.items():
        if refusal.remedy == _HIDDEN:
            alter = quote("ALTER ROLE {} BYPASSRLS", parts.settings.source.user)
            yield Fault(str(table), refusal.what, f"{_HIDDEN}: {alter}", (JointStatement(alter),))


@check("role.own_schema", Severity.ERROR, "registrations, heartbeats and the shapes of tables are kept in the source")
def find_own_schema(parts: AskedParts) -> Iterator[Fault]:
    """The role may make the toolkit's schema, or use the tables in it."""
    if error := parts.source.schema_error:
        schema = parts.settings.source.heartbeat_schema
        yield Fault.of(schema, error, JointStatement(error.remedy.partition(": ")[2].rstrip(";")))


@check("role.expires", Severity.WARNING, "on that day neither the connector nor a verb gets in any more")
def find_expiry(parts: AskedParts) -> Iterator[Fault]:
    """The role's password is valid for 30 days at least."""
    days = parts.source.role["expires_days"]
    if days is not None and days < _SOON_DAYS:
        user = parts.settings.source.user
        alter = quote("ALTER ROLE {} VALID UNTIL 'infinity'", user)
        yield Fault(
            user, f"the password of role {user} is valid for {days:.0f} more days", alter, (JointStatement(alter),)
        )


@check("role.sessions", Severity.WARNING, "a copy opens several sessions at a time, beside those of the connector")
def find_session_limit(parts: AskedParts) -> Iterator[Fault]:
    """The role may open twelve sessions."""
    limit = parts.source.role["rolconnlimit"]
    if 0 <= limit < _SESSIONS:
        user = parts.settings.source.user
        alter = quote("ALTER ROLE {} CONNECTION LIMIT -1", user)
        yield Fault(user, f"role {user} may open {limit} sessions only", alter, (JointStatement(alter),))


@check("role.superuser", Severity.NOTE, "whoever gets its password may do everything to the source")
def find_superuser(parts: AskedParts) -> Iterator[Fault]:
    """The role is no superuser."""
    if parts.source.role["rolsuper"]:
        user = parts.settings.source.user
        yield Fault(user, f"role {user} is a superuser", "`cdc doctor --role-sql` prints a role with the least rights")


@check(
    "role.sees_sessions",
    Severity.NOTE,
    "who holds up a slot or a table, and whether the slot's reader works, is not seen",
)
def find_blindness(parts: AskedParts) -> Iterator[Fault]:
    """The role sees what other sessions do."""
    if not parts.source.role["may_see_others"]:
        user = parts.settings.source.user
        grant = quote("GRANT pg_monitor TO {}", user)
        yield Fault(user, f"role {user} does not see what sessions of others do", grant, (JointStatement(grant),))
