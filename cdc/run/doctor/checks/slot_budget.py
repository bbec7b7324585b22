"""How much WAL the slot keeps, of how much, and for whom; and who else keeps the source from cleaning up."""

from collections.abc import Iterator
from typing import Final

from cdc.connect.slot_budget import BudgetPolicy
from cdc.core.text.plural import format_bytes
from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.checks.postgres import find_slot
from cdc.run.doctor.facts.source import Row
from cdc.run.doctor.fixes import LoneStatement, ServerSetting
from cdc.run.doctor.parts import AskedParts
from cdc.run.health.slot_holder import HELD_BYTES, find_slot_holder

_MUCH: Final = 0.75
_OTHERS_BYTES: Final = 1 << 30
_OLD_XMIN: Final = 10_000_000


@check("slot.budget", Severity.WARNING, "it takes disk from the source that its owner did not allow")
def find_over_budget(parts: AskedParts) -> Iterator[Fault]:
    """The slot keeps less than three quarters of `source.slot_budget.max_wal_bytes`."""
    found, most = find_slot(parts), parts.settings.source.slot_budget.max_wal_bytes
    if found and most and (kept := int(found["retained"] or 0)) > _MUCH * most:
        what = f"slot {found['slot_name']} keeps {format_bytes(kept)}, of {format_bytes(most)}"
        yield Fault(found["slot_name"], what, "let the connector run, or raise source.slot_budget.max_wal_bytes")


@check("slot.policy", Severity.WARNING, "a slot is never dropped for the disk's sake, though the file asks for that")
def find_boundless_drop(parts: AskedParts) -> Iterator[Fault]:
    """Where `source.slot_budget.on_exceeded` is `drop`, there is a limit."""
    budget = parts.settings.source.slot_budget
    is_unbounded = parts.decoder.number("max_slot_wal_keep_size") in (None, -1)
    if budget.on_exceeded is BudgetPolicy.DROP and budget.max_wal_bytes is None and is_unbounded:
        fix = ServerSetting("max_slot_wal_keep_size", "50GB")
        what = "no limit says when the slot is to be dropped"
        yield Fault("source.slot_budget", what, "set max_wal_bytes beside it, or max_slot_wal_keep_size", (fix,))


@check("slot.held", Severity.WARNING, "decoding would begin with it, so all WAL since then is kept, read or not")
def find_holder(parts: AskedParts) -> Iterator[Fault]:
    """No transaction is open that has written, and for which the slot keeps more than 64 MiB."""
    found, oldest = find_slot(parts), parts.source.oldest
    kept = int(found["retained"] or 0) if found else 0
    holder = find_slot_holder(oldest, kept, parts.source.read_at)
    if not found or oldest is None or holder is None or kept < HELD_BYTES:
        return
    what = f"slot {found['slot_name']} keeps {format_bytes(kept)} for {holder.text}"
    fixes = (LoneStatement(holder.release),) if oldest.gid is None else ()
    yield Fault(oldest.name, what, f"end it: {holder.release}", fixes)


@check("slot.others", Severity.WARNING, "the source's disk is filled by a slot that is not this pipeline's")
def find_other_keepers(parts: AskedParts) -> Iterator[Fault]:
    """No other slot keeps more WAL than this pipeline's, and more than 1 GiB."""
    own = find_slot(parts)
    kept = int(own["retained"] or 0) if own else 0
    for found in parts.source.slots:
        others = int(found["retained"] or 0)
        if found["slot_name"] != parts.settings.source.slot and others > max(kept, _OTHERS_BYTES):
            reader = "" if found["active"] else ", which nobody reads,"
            what = f"{found['slot_type']} slot {found['slot_name']}{reader} keeps {format_bytes(others)}"
            yield Fault(found["slot_name"], what, "let its reader go on, or drop it if nobody comes back to it")


@check("slot.reader_is_ours", Severity.WARNING, "the connector cannot read a slot that somebody else reads")
def find_other_reader(parts: AskedParts) -> Iterator[Fault]:
    """Nobody reads the slot while the connector does not run."""
    found, connector = find_slot(parts), parts.connect.state
    if not found or not found["active"] or not parts.source.registered or connector.is_running:
        return
    pid = found.get("active_pid")
    reader = next((row for row in parts.readers if row["pid"] == pid), {})
    whose = ", ".join(f"{kind} {reader[kind]}" for kind in ("user", "application") if reader.get(kind))
    what = f"slot {found['slot_name']} is read by session {pid} ({whose or 'not shown'}), and {connector}"
    end = f"SELECT pg_terminate_backend({pid})"
    remedy = f"end it: {end}, or wait until wal_sender_timeout does"
    yield Fault(f"session {pid}", what, remedy, (LoneStatement(end),))


@check("postgres.held_vacuum", Severity.WARNING, "dead rows stay, in tables or in the catalog, and queries become slow")
def find_held_vacuum(parts: AskedParts) -> Iterator[Fault]:
    """No slot, and no standby by its feedback, is ten million transactions behind."""
    for found in parts.source.slots:
        for kind, remedy in (("xmin", _FEEDBACK), ("catalog_xmin", "let its reader go on, or drop it")):
            if (age := found.get(f"{kind}_age") or 0) > _OLD_XMIN:
                what = f"slot {found['slot_name']} holds back vacuum by {age:,} transactions ({kind})"
                yield Fault(found["slot_name"], what, remedy)
    for found in parts.source.readers:
        if (age := found["xmin_age"] or 0) > _OLD_XMIN:
            yield Fault(f"session {found['pid']}", _describe_feedback(found, age), _FEEDBACK)


_FEEDBACK: Final = "end the old queries of that standby, or switch hot_standby_feedback off there"


def _describe_feedback(found: Row, age: int) -> str:
    return f"standby {found['application']} (session {found['pid']}) holds back vacuum by {age:,} transactions"
