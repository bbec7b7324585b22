"""Observes the capture from both ends, the source's slot and the log; `standstill.py` has the rule for a standstill."""

import time
from dataclasses import replace
from typing import Final

import psycopg
from psycopg import Connection

from cdc.connect.source import publication
from cdc.connect.source.access import connection as source
from cdc.connect.source.heartbeat import HEARTBEAT, write_heartbeat
from cdc.connect.source.obstacles import find_obstacle
from cdc.connect.source.registration import check_rights
from cdc.connect.source.slots.standby import open_decoding
from cdc.connect.source.sql.queries import read_sql
from cdc.core.position import Lsn, parse_lsn
from cdc.core.waiting import Deadline
from cdc.log.names import change_topic, transaction_topic
from cdc.log.transaction_topic import last_end
from cdc.run.health import patience
from cdc.run.health.standstill import Observation, Quiet, Standstill, has_moved, quiet_seconds
from cdc.run.pipeline import Pipeline

# a lock of the row shows in its table's locks as ROW SHARE or ROW EXCLUSIVE; who reads or vacuums blocks nobody
_BLOCKERS: Final = """
SELECT DISTINCT pid FROM pg_locks
 WHERE relation = to_regclass(%s) AND granted AND pid <> pg_backend_pid()
   AND mode NOT IN ('AccessShareLock', 'ShareUpdateExclusiveLock')"""


class CaptureObserver:
    """Observes one pipeline's capture repeatedly."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._source = pipeline.settings.source
        self._seconds = quiet_seconds(self._source.heartbeat_seconds)
        self._confirmed: tuple[Lsn | None, float] | None = None
        self._quiet: Quiet | None = None
        self._last: Observation | None = None
        self._moved_at: float | None = None
        self._blockers: tuple[str, ...] = ()
        # did the last look see progress, or the arrival of our heartbeat?
        self._has_moved = False

    def glance(self, connection: Connection) -> Standstill | None:
        """Query the slot; if it has not moved during several heartbeats, `look`."""
        slot = self._read_slot(connection)
        if self._confirmed is None:
            self._confirmed = slot.confirmed, slot.at
        elif slot.confirmed != self._confirmed[0]:
            self._confirmed = slot.confirmed, slot.at
            self._begin_again(slot.at)
        # while the slot moves, nobody has to read the log
        return self.look(connection) if slot.at - self._confirmed[1] >= self._seconds else None

    def look(self, connection: Connection) -> Standstill | None:
        """Look once; returns the standstill when it is certain, after several looks over OBSERVED_SECONDS.

        The first look writes a heartbeat. Raises UnreachableError when the log does not answer, PreconditionError when
        the role may not write a heartbeat.
        """
        slot = self._read_slot(connection)
        # before the log is read, so that everything after it counts as progress
        topics = self._topics(connection)
        with self._pipeline.open_log(committed=False) as reader:
            written = reader.end(topics)
        lsn, at = self.newest()
        now = replace(slot, newest_lsn=lsn, newest_at=at, written=written)
        before, self._last, self._has_moved = self._last, now, False
        if self._quiet is None or before is None:
            self._quiet = Quiet(now, self._beat(connection), self._moved_at)
            return None
        if now.has_arrived(self._quiet.beat) or has_moved(before, now, self._quiet.beat):
            self._confirmed = now.confirmed, now.at
            self._begin_again(now.at)
            return None
        since = self._quiet.still_since(now, self._seconds)
        return None if since is None else self._standstill(connection, now, since)

    def _standstill(self, connection: Connection, now: Observation, since: float) -> Standstill:
        read = f"slot {self._source.slot} is read{'' if now.is_active else ' by nobody'}"
        obstacle = find_obstacle(connection, self._source)
        return Standstill(since, now.at - since, read, now.missing, self._blockers, obstacle)

    def observe(self, connection: Connection) -> Standstill | None:
        """Look until it is certain whether the capture stands still, at most 1.5 times OBSERVED_SECONDS."""
        deadline = Deadline(1.5 * patience.OBSERVED_SECONDS)
        while not deadline.is_past:
            found = self.look(connection)
            if found or self._has_moved:
                return found
            time.sleep(patience.POLL_SECONDS)
        return None

    def newest(self) -> tuple[Lsn | None, float | None]:
        """The log's newest commit, if it has one: LSN, and seconds since 1970 by the source's clock."""
        with self._pipeline.open_log() as reader:
            newest = last_end(reader, transaction_topic(self._pipeline.settings.log.prefix))
        return (newest.lsn, newest.committed_ms / 1000) if newest else (None, None)

    def _begin_again(self, moved_at: float) -> None:
        self._quiet, self._last, self._moved_at, self._has_moved = None, None, moved_at, True

    def _read_slot(self, connection: Connection) -> Observation:
        """Observe the slot, its reader and the source's clock alone."""
        with open_decoding(connection, self._source) as decoding:
            row = decoding.execute(read_sql("slot_reader"), (self._source.slot,)).fetchone()
        assert row is not None
        confirmed, sent = (parse_lsn(text) if text else None for text in (row[0], row[2]))
        # commits are stamped by the clock of who writes
        at = row[4] if self._source.standby_host is None else source.read_clock(connection)
        return Observation(at, confirmed, sent, bool(row[1]), bool(row[3]))

    def _topics(self, connection: Connection) -> list[str]:
        """The topics of the capture, without its own heartbeats, which go on while Postgres sends nothing."""
        prefix = self._pipeline.settings.log.prefix
        tables = publication.read_publication(connection, self._source.publication) or ()
        return [transaction_topic(prefix), *sorted(change_topic(prefix, table) for table in tables)]

    def _beat(self, connection: Connection) -> Lsn:
        """Write a heartbeat; returns an LSN before it. If the table is locked, remember the sessions that lock it."""
        before = source.current_lsn(connection)
        # else a session that locks the table would hold up this look as it does the connector
        most = f"{patience.LOCK_MILLISECONDS}ms"
        try:
            write_heartbeat(connection, self._source, self._pipeline.name, "does it move?", most)
            self._blockers = ()
        except psycopg.errors.LockNotAvailable:
            name = f'"{self._source.heartbeat_schema}"."{HEARTBEAT}"'
            rows = connection.execute(_BLOCKERS, (name,)).fetchall()
            self._blockers = tuple(f"session {row[0]}" for row in rows)
        except psycopg.errors.InsufficientPrivilege:
            check_rights(connection, self._source)
            raise
        return before
