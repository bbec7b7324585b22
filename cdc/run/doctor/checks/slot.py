"""The replication slot: there, ours, readable, and with room."""

from collections.abc import Iterator
from typing import Final

from cdc.connect.source.slots import decoding, slot
from cdc.connect.source.slots.standby import open_decoding
from cdc.core.errors import RECAPTURE, CdcError, HistoryLostError
from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.checks.postgres import drop_slot, find_slot
from cdc.run.doctor.fixes import ServerSetting
from cdc.run.doctor.parts import AskedParts

PLUGIN: Final = "pgoutput"
_IDLE_SECONDS: Final = 300.0
_LITTLE_ROOM: Final = 0.25


@check("slot.ours", Severity.ERROR, "the capture would consume what somebody else waits for")
def find_foreign(parts: AskedParts) -> Iterator[Fault]:
    """A slot of that name is this pipeline's."""
    name = parts.settings.source.slot
    if parts.is_new and find_slot(parts):
        what = f"slot {name} is there already and is not this pipeline's"
        yield Fault(name, what, "choose another source.slot, or drop it", (drop_slot(name),))


@check("slot.there", Severity.ERROR, "what is committed without a slot is not captured", at_bootstrap=False)
def find_gone(parts: AskedParts) -> Iterator[Fault]:
    """A pipeline that has begun has its slot."""
    name = parts.settings.source.slot
    if find_slot(parts) is None and parts.source.registered and parts.has_copy:
        what = f"slot {name} is gone, and with it the changes since it was last read"
        yield Fault(name, what, RECAPTURE, kind=HistoryLostError)


@check("slot.kept", Severity.ERROR, "what it has lost is in no follower", at_bootstrap=False)
def find_lost(parts: AskedParts) -> Iterator[Fault]:
    """Postgres has kept all WAL that the slot needs."""
    found = find_slot(parts)
    if found and found.get("wal_status") == "lost" and parts.source.registered:
        error = slot.describe_lost(found["slot_name"], found.get("invalidation_reason"))
        yield Fault.of(found["slot_name"], error)


@check("slot.plugin", Severity.ERROR, "the connector reads what pgoutput sends, from a logical slot of this database")
def find_other_kind(parts: AskedParts) -> Iterator[Fault]:
    """It is a logical slot of `pgoutput`, in this database."""
    found, source = find_slot(parts), parts.settings.source
    if found and (found["plugin"], found["database"]) != (PLUGIN, source.dbname):
        kind = f"of plugin {found['plugin']}, in database {found['database']}" if found["plugin"] else "a physical one"
        yield Fault(source.slot, f"slot {source.slot} is {kind}", "choose another source.slot, or drop it")


@check("slot.decodable", Severity.ERROR, "the connector fails where Postgres cannot decode on", at_bootstrap=False)
def find_undecodable(parts: AskedParts) -> Iterator[Fault]:
    """Postgres can decode on from where a slot stands that nobody reads."""
    source, found = parts.settings.source, find_slot(parts)
    readable = found and not found["active"] and found.get("wal_status") != "lost" and found["plugin"] == PLUGIN
    if not readable or not parts.source.registered or parts.source.publication.row is None:
        return
    try:
        with parts.access.open() as connection:
            connection.execute("SET default_transaction_read_only = off")
            with open_decoding(connection, parts.access.source) as where:
                if state := slot.read_state(where, source.slot):
                    decoding.check_decodable(where, state, source.publication)
    except CdcError as error:
        yield Fault.of(source.slot, error)


@check("slot.room", Severity.WARNING, "once its room is used up the slot is lost, and all tables are copied again")
def find_little_room(parts: AskedParts) -> Iterator[Fault]:
    """It has a quarter of its room left, and its WAL is reserved."""
    found = find_slot(parts)
    if not found or found.get("wal_status") == "lost":
        return
    most = (parts.decoder.number("max_slot_wal_keep_size") or -1) << 20
    safe = found.get("safe_wal_size")
    if found.get("wal_status") == "unreserved" or (safe is not None and most > 0 and safe < most * _LITTLE_ROOM):
        kept, left = int(found["retained"] or 0) >> 20, max(int(safe or 0), 0) >> 20
        what = f"slot {found['slot_name']} keeps {kept:,} MiB, and has {left:,} MiB left"
        fix = ServerSetting("max_slot_wal_keep_size", f"{max(most >> 20, 1024) * 4}MB")
        yield Fault(found["slot_name"], what, "let the connector run, or raise max_slot_wal_keep_size", (fix,))


@check("slot.reader", Severity.WARNING, "WAL piles up on the source while nobody reads it")
def find_no_reader(parts: AskedParts) -> Iterator[Fault]:
    """Somebody has read it within the last five minutes."""
    found = find_slot(parts)
    if not found or found["active"] or not parts.source.registered or found.get("wal_status") == "lost":
        return
    idle = found["idle_seconds"]
    if idle is None or idle > _IDLE_SECONDS:
        since = f"for {idle / 60:,.0f} min" if idle is not None else "now"
        yield Fault(
            found["slot_name"],
            f"nobody reads slot {found['slot_name']} {since}".rstrip(),
            "`cdc bootstrap` starts the connector again",
        )


@check(
    "slot.failover", Severity.WARNING, "after a fail-over the new primary has no slot, and all tables are copied again"
)
def find_lone_slot(parts: AskedParts) -> Iterator[Fault]:
    """Where standbys are, the slot is kept on them, too (Postgres 17)."""
    found = find_slot(parts)
    if found and parts.source.standbys and not parts.standby and found.get("failover") is False:
        remedy = (
            "let your standbys take it over: sync_replication_slots and synchronized_standby_slots there, then"
            f" ALTER_REPLICATION_SLOT {found['slot_name']} (FAILOVER) in a replication session"
        )
        yield Fault(found["slot_name"], "the slot is not kept on standbys", remedy)


@check("slot.ahead", Severity.WARNING, "after a fail-over the followers may have commits that the new primary lacks")
def find_unsynchronized(parts: AskedParts) -> Iterator[Fault]:
    """Where standbys keep the slot, nothing reaches the log that they lack (Postgres 17)."""
    found, setting = find_slot(parts), "synchronized_standby_slots"
    waits_for = parts.source.server.settings.get(setting)
    if found and found.get("failover") and parts.source.standbys and waits_for == "":
        named = ", ".join(slot["slot_name"] for slot in parts.source.slots if slot["slot_type"] == "physical")
        remedy = f"ALTER SYSTEM SET {setting} = '{named}', of these the slots of the standbys that may be promoted"
        yield Fault(found["slot_name"], "the log does not wait for a standby", remedy)


@check("slot.abandoned", Severity.WARNING, "each keeps WAL, and the catalog's old rows, until it is dropped")
def find_abandoned(parts: AskedParts) -> Iterator[Fault]:
    """No other logical slot of this database is left without a reader."""
    own = parts.settings.source
    for found in parts.slots:
        is_other = found["slot_name"] != own.slot and found["database"] == own.dbname and not found["temporary"]
        if is_other and not found["active"]:
            name = found["slot_name"]
            what = f"slot {name} has no reader, and keeps {int(found['retained'] or 0) >> 20:,} MiB"
            yield Fault(name, what, "drop it if nobody comes back to it", (drop_slot(name),))
