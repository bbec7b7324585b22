"""The rule for a standstill of the capture, without I/O; `observation.py` queries the servers.

The connector writes a heartbeat every `source.heartbeat_seconds` and captures it. If the log has no new commit for
longer, we write a heartbeat of our own. Only if that does not arrive either, the capture stands still.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cdc.core.errors import CdcError, PreconditionError
from cdc.core.position import Lsn
from cdc.run.health import patience
from cdc.run.health.result import Failing, format_duration, format_time

START_ANEW: Final = "see Kafka Connect's log; `cdc bootstrap` starts the connector anew"


def quiet_seconds(heartbeat_seconds: int) -> float:
    """The time without progress before a closer look."""
    return max(patience.QUIET_BEATS * heartbeat_seconds, patience.LEAST_QUIET_SECONDS)


def is_recent(newest_at: float | None, now: float, heartbeat_seconds: int) -> bool:
    """Is the newest commit in the log as young at `now` as heartbeats keep it?"""
    return newest_at is not None and now - newest_at < quiet_seconds(heartbeat_seconds)


Ends = Mapping[str, Mapping[int, int]]
"""Topic → partition → the offset behind its last record."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation. Times are seconds since 1970 by the source's clock.

    `confirmed`: the slot's LSN. `sent`: the LSN up to which Postgres has sent WAL to the connector, None if nobody
    reads the slot. `is_active`: somebody reads it. `is_decoding`: the walsender is working, not waiting. `newest_lsn`,
    `newest_at`: the newest commit in the log. `written`: the ends of the change topics and the transaction topic,
    uncommitted records included.
    """

    at: float
    confirmed: Lsn | None
    sent: Lsn | None
    is_active: bool
    is_decoding: bool
    newest_lsn: Lsn | None = None
    newest_at: float | None = None
    written: Ends = field(default_factory=dict)

    def has_arrived(self, beat: Lsn) -> bool:
        """Does the log have a commit above `beat`?"""
        return self.newest_lsn is not None and self.newest_lsn > beat

    @property
    def missing(self) -> tuple[str, ...]:
        """The topics that are not there."""
        return tuple(topic for topic, partitions in self.written.items() if not partitions)

    def is_walking(self, beat: Lsn) -> bool:
        """Has Postgres not yet sent the row that was written after `beat`?"""
        return self.sent is not None and self.sent <= beat


def has_moved(before: Observation, now: Observation, beat: Lsn) -> bool:
    """Did the capture make progress between two observations?

    Sent WAL counts up to `beat` only: Debezium fills its queue even while its producer is blocked.
    """
    if (before.confirmed, before.newest_lsn) != (now.confirmed, now.newest_lsn) or _has_grown(
        before.written, now.written
    ):
        return True
    return now.is_walking(beat) and (now.is_decoding or now.sent != before.sent)


def _has_grown(before: Ends, now: Ends) -> bool:
    """Did any partition get a message?

    One further record may be the abort marker of a blocked producer's transaction; a message comes with a marker of its
    own, so it adds two (KIP-98).
    """
    return any(
        end > before.get(topic, {}).get(partition, 0) + 1
        for topic, partitions in now.items()
        for partition, end in partitions.items()
    )


@dataclass(frozen=True, slots=True)
class Quiet:
    """A period without progress since the observation `first`; then a row was written after the LSN `beat`.

    `moved_at`: the last time that progress was seen.
    """

    first: Observation
    beat: Lsn
    moved_at: float | None = None

    def still_since(self, now: Observation, quiet: float) -> float | None:
        """The start of the standstill; None if it is not certain."""
        if now.has_arrived(self.beat) or now.at - self.first.at < patience.OBSERVED_SECONDS:
            return None
        since = max([at for at in (self.moved_at, now.newest_at) if at is not None], default=self.first.at)
        # a producer that has no topic to write to blocks the reader as well: nobody walks there
        is_walking = now.is_walking(self.beat) and not now.missing
        longest = patience.WALKING_SECONDS if is_walking else quiet
        return since if now.at - since >= longest else None


@dataclass(frozen=True, slots=True)
class Standstill:
    """A standstill of the capture: its start and duration by the source's clock, and its symptoms.

    `missing`: topics that do not exist. `blockers`: sessions that lock the heartbeat table. `obstacle`: what the source
    has against going on.
    """

    since: float
    seconds: float
    slot: str
    missing: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    obstacle: CdcError | None = None

    def to_failing(
        self, connector: object, silent: CdcError | None, allowed: patience.Patience, otherwise: str = START_ANEW
    ) -> Failing:
        """Make the result: `connector` describes the connector's state; `silent` is the error of asking for it.

        `otherwise`: what helps when nothing is known of the cause.
        """
        seen = [
            silent.what if silent else str(connector),
            self.slot,
            *(f"topic {name} is not there" for name in self.missing),
        ]
        if self.blockers:
            seen.append(f"{', '.join(self.blockers)} locks the heartbeat table")
        if self.obstacle:
            seen.append(self.obstacle.what)
        event = f"capture stands still since {format_time(self.since)}"
        line = f"{event} ({format_duration(self.seconds)}): {', '.join(seen)}"
        is_final = self.obstacle is not None or self.seconds >= (allowed.silent if silent else allowed.still)
        error = PreconditionError(line, self._remedy(silent, otherwise))
        return Failing(error, self.since, is_final, f"{event}{seen}", is_still=True)

    def _remedy(self, silent: CdcError | None, otherwise: str) -> str:
        if self.obstacle:
            return self.obstacle.remedy
        if silent:
            return silent.remedy
        if self.blockers:
            return "end that session"
        if self.missing:
            return "`cdc bootstrap` makes it again"
        return otherwise
