"""The server where the slot lives: the source itself, or a standby of it that decodes and is copied from (Postgres 16).

A standby's WAL is its primary's, so an LSN means the same on both. Whatever is written goes to the primary, and is seen
here when the standby has replayed it (Postgres manual, "Logical Decoding Concepts", "Replication Slots").
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import Connection

from cdc.connect.settings import SourceSettings
from cdc.connect.source.access.connection import address, current_lsn, inserted_lsn, open_connection
from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.core.position import Lsn, format_lsn, parse_lsn
from cdc.core.waiting import Deadline
from cdc.postgres.values import read_value

OLDEST_STANDBY: Final = 160_000
"""The first version that decodes on a standby."""
RESUME_REPLAY: Final = "SELECT pg_wal_replay_resume()"
PROMOTED: Final = "name it in source.host and source.port, take source.standby_host out, and run `cdc bootstrap`"
REPLAY_SECONDS: Final = 0.2
"""Pause between two looks whether the standby has replayed something."""
_MAY_NOTE: Final = "SELECT has_function_privilege(to_regprocedure('pg_log_standby_snapshot()')::oid, 'EXECUTE')"
LET_NUDGE: Final = "GRANT EXECUTE ON FUNCTION pg_catalog.pg_log_standby_snapshot() TO {}"
"""Lets a role have the primary write what a slot on a standby waits for."""
_LOOK: Final = """
SELECT pg_is_in_recovery(), pg_postmaster_start_time()::text, pg_last_wal_replay_lsn()::text,
       CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE false END,
       EXISTS (SELECT FROM pg_stat_wal_receiver), current_setting('hot_standby_feedback')::bool,
       current_setting('wal_level'), COALESCE(current_setting('primary_slot_name', true), '')"""
# a standby reports what it reads every ten seconds, and not before it has been up for so long
_HOLDS: Final = "SELECT xmin IS NOT NULL FROM pg_replication_slots WHERE slot_name = %s"
_IDENTIFIER: Final = "SELECT system_identifier FROM pg_control_system()"


@dataclass(frozen=True, slots=True)
class StandbyState:
    """What a server says of itself; `started` tells two servers apart. `identifier`: None where it may not be read."""

    version: int
    in_recovery: bool
    started: str
    replayed: Lsn | None
    is_paused: bool
    is_receiving: bool
    has_feedback: bool
    wal_level: str
    upstream_slot: str
    identifier: int | None

    @classmethod
    def read(cls, connection: Connection[Any]) -> "StandbyState":
        row = connection.execute(_LOOK.encode()).fetchone()
        assert row is not None
        in_recovery, started, replayed, is_paused, is_receiving, has_feedback, wal_level, upstream = row
        return cls(
            connection.info.server_version,
            in_recovery,
            started,
            parse_lsn(replayed) if replayed else None,
            is_paused,
            is_receiving,
            has_feedback,
            wal_level,
            upstream,
            _read_identifier(connection),
        )


@contextmanager
def open_decoding(connection: Connection[Any], source: SourceSettings) -> Iterator[Connection[Any]]:
    """A session where the slot lives: `connection`, which is the source's, or without more ado one on the standby.

    Raises CdcError for a standby that does not answer, or that is none of this source.
    """
    if source.standby_host is None:
        yield connection
        return
    with open_connection(source.decoding) as standby:
        check_follows(connection, standby, source)
        yield standby


def check_follows(connection: Connection[Any], standby: Connection[Any], source: SourceSettings) -> None:
    """Raise CdcError unless `standby` follows the source, or is the source since it was promoted."""
    if error := find_stranger(StandbyState.read(connection), StandbyState.read(standby), source):
        raise error


def find_stranger(primary: StandbyState, standby: StandbyState, source: SourceSettings) -> CdcError | None:
    """Why this server is no standby of the source; None if it is, or is the source itself: it was promoted."""
    where = address(source.decoding)
    if standby.version < OLDEST_STANDBY:
        what = f"{where} is Postgres {standby.version // 10_000}, which does not decode on a standby"
        return PreconditionError(what, "upgrade it to 16 or newer, or take source.standby_host out")
    if None not in (primary.identifier, standby.identifier) and primary.identifier != standby.identifier:
        what = f"{where} is of cluster {standby.identifier}, the source is {primary.identifier}"
        return PreconditionError(what, "name a standby of the source in source.standby_host")
    if not standby.in_recovery and standby.started != primary.started:
        what = f"{where} is no standby any more, it was promoted, and {address(source)} is another primary"
        return PreconditionError(what, f"if it is the source from now on, {PROMOTED}; else name another standby")
    return None


def find_halt(connection: Connection[Any], standby: Connection[Any], source: SourceSettings) -> CdcError | None:
    """What keeps the standby from replaying what the source has written."""
    state = StandbyState.read(standby)
    if not state.in_recovery:
        return None
    where, replayed = address(source.decoding), format_lsn(state.replayed or Lsn(0))
    if state.is_paused:
        what = f"{where} has paused its replay at {replayed}"
        return PreconditionError(what, f"run there: {RESUME_REPLAY}")
    if not state.is_receiving and (state.replayed or 0) < current_lsn(connection):
        what = f"{where} receives no WAL, and stands at {replayed}"
        return UnreachableError(what, "see its log, and primary_conninfo there")
    return None


def wait_for_replay(source: SourceSettings) -> None:
    """Return when the standby has replayed everything that the source has written by now, and the source keeps the rows
    that are read there: before, a snapshot would end by the next vacuum.

    Raises CdcError when it has not after `source.slot_timeout_seconds`.
    """
    deadline = Deadline(source.slot_timeout_seconds)
    with open_connection(source) as connection, open_decoding(connection, source) as standby:
        target = inserted_lsn(connection)
        # behind it: what was committed without waiting for the disk is flushed with this, and sent
        nudge(connection)
        while (state := StandbyState.read(standby)).in_recovery and (
            (state.replayed or 0) < target or not _holds_rows(connection, state)
        ):
            if deadline.is_past:
                raise find_halt(connection, standby, source) or _describe_lag(source, state, target)
            time.sleep(REPLAY_SECONDS)


def _holds_rows(primary: Connection[Any], standby: StandbyState) -> bool:
    """Does the primary keep the rows that sessions of the standby read? Without a slot of it nobody can tell."""
    found = primary.execute(_HOLDS, (standby.upstream_slot,)).fetchone()
    return found is None or not standby.has_feedback or bool(found[0])


def _describe_lag(source: SourceSettings, state: StandbyState, target: Lsn) -> UnreachableError:
    behind = target - (state.replayed or 0)
    where, seconds = address(source.decoding), source.slot_timeout_seconds
    if behind <= 0:
        what = f"{where} has not told its primary which rows it reads, for {seconds} s"
        return UnreachableError(what, f"see pg_replication_slots.xmin of {state.upstream_slot} on the primary")
    what = f"{where} is {behind:,} bytes behind its primary after {seconds} s"
    return UnreachableError(what, "wait until it has caught up, or raise source.slot_timeout_seconds")


def nudge(connection: Connection[Any]) -> None:
    """Let the primary write which transactions run: a slot on a standby is made at such a record, and an idle primary
    writes none (Postgres manual, "pg_log_standby_snapshot").

    Without the right to, a transaction that changes nothing lets the primary write one itself, within 15 seconds.
    """
    if not note_transactions(connection):
        connection.execute("SELECT pg_current_xact_id()")


def note_transactions(connection: Connection[Any]) -> bool:
    """Let the primary write which transactions run; returns False where it has no function for that, or refuses it."""
    # asked first: each refusal would be a line in the server's log
    if not read_value(connection, _MAY_NOTE):
        return False
    connection.execute("SELECT pg_log_standby_snapshot()")
    return True


@contextmanager
def nudging(source: SourceSettings) -> Iterator[Callable[[], None]]:
    """Gives what is to be called now and then while a slot is made; of the source itself nothing is asked."""
    if source.standby_host is None:
        yield lambda: None
        return
    with open_connection(source) as connection:
        yield lambda: nudge(connection)


def _read_identifier(connection: Connection[Any]) -> int | None:
    try:
        return int(read_value(connection, _IDENTIFIER))
    except psycopg.errors.InsufficientPrivilege:
        return None
