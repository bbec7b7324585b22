"""Settings and state of the whole server, as far as logical decoding depends on them."""

import re
from collections.abc import Iterator
from typing import Final

from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.facts.source import Row
from cdc.run.doctor.fixes import LoneStatement, ServerSetting, quote_text
from cdc.run.doctor.parts import AskedParts

SENDERS: Final = 2
"""Free WAL senders of a first copy: the session that made the slot holds its snapshot, and the connector starts before
the copy ends."""
_LEAST_SLOT_MEGABYTES: Final = 1024
_OLD_SECONDS: Final = 600.0
_FREE_SESSIONS: Final = 10
_SPILLED_BYTES: Final = 1 << 30


@check("postgres.wal_level", Severity.ERROR, "on a lower level the WAL does not have what decoding needs")
def find_wal_level(parts: AskedParts) -> Iterator[Fault]:
    """`wal_level` is `logical`."""
    settings = parts.source.server.settings
    if (level := settings["wal_level"]) == "logical":
        return
    # since Postgres 19 the first logical slot raises effective_wal_level; Debezium only checks wal_level
    raised = settings.get("effective_wal_level")
    note = f", which Debezium does not take, though effective_wal_level is {raised}" if raised == "logical" else ""
    how = parts.provider.set_setting("wal_level", "logical")
    # the statement as people know it
    remedy = f"{'ALTER SYSTEM SET wal_level = logical' if parts.provider.where is None else how}; then restart Postgres"
    fix = ServerSetting("wal_level", "logical", needs_restart=True)
    yield Fault("wal_level", f"the source has wal_level={level}{note}", remedy, (fix,))


@check(
    "postgres.encoding", Severity.ERROR, "nothing says what its bytes above 127 mean, so none can be a text in UTF-8"
)
def find_encoding(parts: AskedParts) -> Iterator[Fault]:
    """The database has an encoding."""
    server = parts.source.server
    if server.settings.get("server_encoding") == "SQL_ASCII":
        what = f"database {server.database} has encoding SQL_ASCII: nothing says what its bytes above 127 mean"
        remedy = "dump it, and restore it into a database WITH ENCODING 'UTF8' TEMPLATE template0"
        yield Fault(server.database, what, remedy)


@check("postgres.free_slots", Severity.ERROR, "the capture reads a slot of its own")
def find_free_slots(parts: AskedParts) -> Iterator[Fault]:
    """There is a free replication slot, if ours is not there yet."""
    most = parts.decoder.number("max_replication_slots") or 0
    if find_slot(parts) is None and len(parts.slots) >= most:
        fix = ServerSetting("max_replication_slots", str(most + 10), needs_restart=True)
        what = f"all {most} replication slots are taken"
        yield Fault("max_replication_slots", what, "raise max_replication_slots, or drop one", (fix,))


@check("postgres.free_senders", Severity.ERROR, "who makes or reads a slot needs a WAL sender")
def find_free_senders(parts: AskedParts) -> Iterator[Fault]:
    """There are two free WAL senders, if our slot is not there yet."""
    server = parts.decoder
    most = server.number("max_wal_senders") or 0
    if find_slot(parts) is None and server.senders + SENDERS > most:
        fix = ServerSetting("max_wal_senders", str(most + 10), needs_restart=True)
        what = f"of {most} WAL senders {server.senders} are taken, and a first copy needs {SENDERS}"
        yield Fault("max_wal_senders", what, "raise max_wal_senders", (fix,))


@check("postgres.slot_bound", Severity.NOTE, "a slot that nobody reads keeps WAL until the source's disk is full")
def find_slot_bound(parts: AskedParts) -> Iterator[Fault]:
    """`max_slot_wal_keep_size` has a bound."""
    if parts.decoder.number("max_slot_wal_keep_size") == -1:
        fix = ServerSetting("max_slot_wal_keep_size", "50GB")
        remedy = "set it to what the disk can spare: a slot that is lost costs a new copy, a full disk costs the source"
        yield Fault("max_slot_wal_keep_size", "a slot may keep any amount of WAL", remedy, (fix,))


@check(
    "postgres.slot_room",
    Severity.WARNING,
    "a short stop of the capture loses the slot, and all tables are copied again",
)
def find_slot_room(parts: AskedParts) -> Iterator[Fault]:
    """`max_slot_wal_keep_size` leaves a slot 1 GB at least."""
    kept = parts.decoder.number("max_slot_wal_keep_size")
    if kept is not None and 0 <= kept < _LEAST_SLOT_MEGABYTES:
        fix = ServerSetting("max_slot_wal_keep_size", "50GB")
        what = f"a slot is given up when it keeps more than {kept} MB of WAL"
        yield Fault("max_slot_wal_keep_size", what, "raise max_slot_wal_keep_size", (fix,))


@check(
    "postgres.idle_slots",
    Severity.WARNING,
    "a slot that nobody reads for so long is given up, and all tables are copied again",
)
def find_idle_slots(parts: AskedParts) -> Iterator[Fault]:
    """`idle_replication_slot_timeout` is 0."""
    seconds = parts.decoder.number("idle_replication_slot_timeout")
    if seconds:
        fix = ServerSetting("idle_replication_slot_timeout", "0")
        what = f"a slot is given up that nobody reads for {seconds} s"
        yield Fault("idle_replication_slot_timeout", what, "set idle_replication_slot_timeout to 0", (fix,))


@check(
    "postgres.sender_timeout",
    Severity.WARNING,
    "a connection that has silently ended keeps the slot, and nobody else may read it",
)
def find_sender_timeout(parts: AskedParts) -> Iterator[Fault]:
    """`wal_sender_timeout` is not 0."""
    if parts.decoder.number("wal_sender_timeout") == 0:
        fix = ServerSetting("wal_sender_timeout", "60s")
        yield Fault("wal_sender_timeout", "a dead connector is never noticed", "set wal_sender_timeout to 60s", (fix,))


@check(
    "postgres.prepared",
    Severity.WARNING,
    "a slot is not made before it ends, and decoding keeps all WAL since it began",
)
def find_prepared(parts: AskedParts) -> Iterator[Fault]:
    """No prepared transaction is older than ten minutes."""
    own = parts.source.server.database
    for found in parts.source.prepared:
        if found["age"] > _OLD_SECONDS:
            rollback = f"ROLLBACK PREPARED {quote_text(found['gid'])}"
            whose = f"of {found['owner']}, in {found['database']}"
            what = f"transaction {found['gid']!r} {whose}, was prepared {_age(found)} ago"
            fixes = (LoneStatement(rollback),) if found["database"] == own else ()
            yield Fault(found["gid"], what, f"COMMIT PREPARED, or {rollback}", fixes)


@check(
    "postgres.old_transactions",
    Severity.WARNING,
    "a slot is not made before it ends, and nothing is vacuumed meanwhile",
)
def find_old_transactions(parts: AskedParts) -> Iterator[Fault]:
    """No session is in one transaction for more than ten minutes."""
    for found in parts.source.transactions:
        if found["age"] > _OLD_SECONDS:
            what = f"session {found['pid']} ({_whose(found)}) is in one transaction for {_age(found)}"
            end = f"SELECT pg_terminate_backend({found['pid']})"
            yield Fault(f"session {found['pid']}", what, f"end it: {end}", (LoneStatement(end),))


@check("postgres.spill", Severity.NOTE, "transactions that do not fit into memory are written to disk, and read again")
def find_spill(parts: AskedParts) -> Iterator[Fault]:
    """Our slot has spilled less than 1 GiB."""
    slot = find_slot(parts)
    if slot and (slot["spilled"] or 0) > _SPILLED_BYTES:
        memory = parts.decoder.number("logical_decoding_work_mem") or 0
        fix = ServerSetting("logical_decoding_work_mem", f"{max(256, 4 * memory // 1024)}MB")
        what = f"decoding has spilled {slot['spilled'] >> 20:,} MiB with logical_decoding_work_mem at {memory >> 10} MB"
        yield Fault(slot["slot_name"], what, "raise logical_decoding_work_mem", (fix,))


@check("postgres.durable", Severity.WARNING, "after a crash the source lacks commits that every follower has")
def find_lax_commits(parts: AskedParts) -> Iterator[Fault]:
    """`fsync` and `full_page_writes` are on."""
    for name in ("fsync", "full_page_writes"):
        if parts.source.server.settings.get(name) == "off":
            yield Fault(name, f"{name} is off", f"switch {name} on", (ServerSetting(name, "on"),))


@check("postgres.synchronous", Severity.WARNING, "each commit waits for Debezium, and while it rests nobody can commit")
def find_awaited_capture(parts: AskedParts) -> Iterator[Fault]:
    """`synchronous_standby_names` takes no session for a standby that is none."""
    name = "synchronous_standby_names"
    # a name in quotes may have a star in it
    if "*" in re.sub(r'"[^"]*"', "", parts.source.server.settings.get(name) or ""):
        remedy = f"set {name} to the application_name of each standby, as 'ANY 1 (standby_1, standby_2)'"
        yield Fault(name, f"the * in {name} matches every session that replicates, Debezium's, too", remedy)


@check("postgres.free_sessions", Severity.WARNING, "a copy opens several sessions at a time, and each verb two")
def find_free_sessions(parts: AskedParts) -> Iterator[Fault]:
    """There are ten free sessions."""
    server = parts.source.server
    free = (
        (server.number("max_connections") or 0)
        - (server.number("superuser_reserved_connections") or 0)
        - server.sessions
    )
    if free < _FREE_SESSIONS:
        fix = ServerSetting("max_connections", str((server.number("max_connections") or 0) + 50), needs_restart=True)
        yield Fault(
            "max_connections", f"only {max(free, 0)} sessions are free", "end some, or raise max_connections", (fix,)
        )


def find_slot(parts: AskedParts) -> Row | None:
    """Our slot, if it is there."""
    name = parts.settings.source.slot
    return next((slot for slot in parts.slots if slot["slot_name"] == name), None)


def _age(found: Row) -> str:
    return f"{found['age'] / 60:,.0f} min"


def _whose(found: Row) -> str:
    """Of a session: user, application, database, and when its last query began, as far as these are known."""
    named = [f"{kind} {found[kind]}" for kind in ("user", "application", "database") if found.get(kind)]
    asked = found.get("query_age")
    return ", ".join([*named, *([] if asked is None else [f"last query {asked / 60:,.0f} min ago"])])


def drop_slot(name: str) -> LoneStatement:
    """The statement that drops a slot."""
    return LoneStatement(f"SELECT pg_drop_replication_slot({quote_text(name)})")
