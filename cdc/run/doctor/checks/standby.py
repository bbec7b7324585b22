"""The standby on which the slot lives, where `source.standby_host` names one (Postgres 16)."""

from collections.abc import Iterator

from cdc.connect.source.access.connection import address
from cdc.connect.source.slots.standby import LET_NUDGE
from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.facts.standby import StandbyFacts
from cdc.run.doctor.fixes import JointStatement, quote
from cdc.run.doctor.parts import AskedParts

_RESTART = "then restart it"


@check("standby.answers", Severity.ERROR, "the slot is there, and the rows are copied from it")
def find_silent_standby(parts: AskedParts) -> Iterator[Fault]:
    """The standby answers, with the same role and password as the source."""
    _ = parts.standby
    yield from ()


@check("standby.follows", Severity.ERROR, "it would decode what another server has written")
def find_other_server(parts: AskedParts) -> Iterator[Fault]:
    """The server is of Postgres 16 or newer and a standby of the source, or the source itself since its promotion."""
    found = parts.standby
    if found and found.stranger:
        yield Fault.of(_name(parts), found.stranger)


@check("standby.feedback", Severity.ERROR, "a vacuum of the primary takes the catalog's rows away that the slot needs")
def find_no_feedback(parts: AskedParts) -> Iterator[Fault]:
    """`hot_standby_feedback` is on."""
    found = _of_standby(parts)
    if found and not found.state.has_feedback:
        remedy = "run there: ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf()"
        yield Fault(_name(parts), "the standby has hot_standby_feedback=off", remedy)


@check("standby.wal_level", Severity.ERROR, "a standby decodes only with the level that its primary has")
def find_low_level(parts: AskedParts) -> Iterator[Fault]:
    """Its own `wal_level` is `logical`, too."""
    found = _of_standby(parts)
    if found and found.state.wal_level != "logical":
        remedy = f"run there: ALTER SYSTEM SET wal_level = logical; {_RESTART}"
        yield Fault(_name(parts), f"the standby has wal_level={found.state.wal_level}", remedy)


@check(
    "standby.physical_slot",
    Severity.WARNING,
    "while it is away the primary forgets what it needs, and the slot is lost with all that was not read",
)
def find_no_physical_slot(parts: AskedParts) -> Iterator[Fault]:
    """The standby reads by a slot of its primary."""
    found = _of_standby(parts)
    if found and not found.state.upstream_slot:
        remedy = "make a physical slot on the primary, and name it in primary_slot_name of the standby"
        yield Fault(_name(parts), "the standby has no primary_slot_name", remedy)


@check("standby.replays", Severity.ERROR, "what it does not replay reaches no follower", at_bootstrap=False)
def find_halted(parts: AskedParts) -> Iterator[Fault]:
    """It receives WAL and replays it."""
    found = _of_standby(parts)
    if found and found.halt:
        yield Fault.of(_name(parts), found.halt)


@check("standby.snapshots", Severity.NOTE, "a slot on a standby is made some ten seconds later on an idle primary")
def find_no_right_to_log(parts: AskedParts) -> Iterator[Fault]:
    """The role may execute `pg_log_standby_snapshot()` on the primary."""
    found = _of_standby(parts)
    if found and not found.may_log:
        grant = quote(LET_NUDGE, parts.settings.source.user)
        yield Fault("pg_log_standby_snapshot()", "the role may not execute it", grant, (JointStatement(grant),))


def _of_standby(parts: AskedParts) -> StandbyFacts | None:
    """What is known of a server that is a standby now; of one that was promoted nothing is asked."""
    found = parts.standby
    return found if found and found.state.in_recovery else None


def _name(parts: AskedParts) -> str:
    return address(parts.settings.source.decoding)
