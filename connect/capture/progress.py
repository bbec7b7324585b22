"""Does the capture move while the source does? The rule, without I/O; `observation.py` asks the parts.

The connector writes a heartbeat every `source.heartbeat_seconds`, which it then captures: that the log has had no new
commit for longer has a reason. Nothing may move for a while although all is well, so a row is written then; only when
it does not arrive either, the capture stands still.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cdc.core.errors import CdcError, PreconditionError
from cdc.core.position import Lsn

QUIET_BEATS: Final = 3
LEAST_QUIET_SECONDS: Final = 15.0
"""So long nothing has to have moved, however often heartbeats come: a connector that starts again takes seconds."""
WALKING_SECONDS: Final = 120.0
"""The same while Postgres has not sent our row yet: Debezium walks through a large transaction again, after a restart,
and writes nothing meanwhile."""
OBSERVED_SECONDS: Final = 10.0
"""So long our own row has to be missing while nothing moves."""
STILL_FOR_GOOD_SECONDS, SILENT_SECONDS = 120.0, 600.0
"""After so long, somebody who waits for the capture gives up: where it stands still, and where Kafka Connect or the
source does not answer."""


def quiet_seconds(heartbeat_seconds: int) -> float:
    """How long nothing may move before that is worth a closer look."""
    return max(QUIET_BEATS * heartbeat_seconds, LEAST_QUIET_SECONDS)


Ends = Mapping[str, Mapping[int, int]]
"""Topic, partition, and the offset behind its last record."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one look finds. Times are seconds since 1970 by the source's clock.

    `newest_lsn`, `newest_at`: the newest commit in the log. `written`: where each partition ends that the capture
    writes tables' changes and transactions to, committed or not. `sent`: up to where Postgres has sent WAL to the
    connector, None where nobody reads the slot.
    `is_decoding`: Postgres is at work for the slot, and waits for nothing.
    """

    at: float
    newest_lsn: Lsn | None
    newest_at: float | None
    written: Ends
    confirmed: Lsn | None
    sent: Lsn | None
    is_decoding: bool

    def has_arrived(self, beat: Lsn) -> bool:
        """Is a row in the log that was written behind `beat`?"""
        return self.newest_lsn is not None and self.newest_lsn > beat

    def is_walking(self, beat: Lsn) -> bool:
        """Has Postgres more to send before the row that was written behind `beat`?"""
        return self.sent is not None and self.sent <= beat


def has_moved(before: Observation, now: Observation, beat: Lsn) -> bool:
    """Did the capture get further between two looks?

    What Postgres sends counts up to `beat` only: Debezium reads on into its queue while its producer is blocked.
    """
    if (before.confirmed, before.newest_lsn) != (now.confirmed, now.newest_lsn) or _has_grown(
        before.written, now.written
    ):
        return True
    return now.is_walking(beat) and (now.is_decoding or now.sent != before.sent)


def _has_grown(before: Ends, now: Ends) -> bool:
    """Was something written that lasts? By one record a partition grows when a broker gives up the transaction of a
    producer that is blocked: that is a marker, and every message has one of its own behind it (KIP-98)."""
    return any(
        end > before.get(topic, {}).get(partition, 0) + 1
        for topic, partitions in now.items()
        for partition, end in partitions.items()
    )


@dataclass(frozen=True, slots=True)
class Quiet:
    """A time in which nothing has moved, from its first look on, behind which a row was written at `beat`.

    `moved_at`: when the capture was last seen to move.
    """

    first: Observation
    beat: Lsn
    moved_at: float | None = None

    def still_since(self, now: Observation, quiet: float) -> float | None:
        """Since when the capture stands still, as far as is known; None where that is not sure."""
        if now.has_arrived(self.beat) or now.at - self.first.at < OBSERVED_SECONDS:
            return None
        since = max([at for at in (self.moved_at, now.newest_at) if at is not None], default=self.first.at)
        return since if now.at - since >= (WALKING_SECONDS if now.is_walking(self.beat) else quiet) else None


@dataclass(frozen=True, slots=True)
class Standstill:
    """The capture stands still: since when, for how long by the source's clock, and what is to be seen of it.

    `missing`: topics that are not there. `blockers`: sessions that keep a heartbeat from being written.
    """

    since: float
    seconds: float
    slot: str
    missing: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()

    def error(self, connector: object, silent: CdcError | None = None) -> "CaptureTroubleError":
        """What to tell of it: `connector` says how that stands; `silent` is why it could not be asked."""
        seen = [
            silent.what if silent else str(connector),
            self.slot,
            *(f"topic {name} is not there" for name in self.missing),
        ]
        if self.blockers:
            seen.append(f"{', '.join(self.blockers)} locks the heartbeat table")
        what = f"capture stands still since {_moment(self.since)}"
        told = f"{what} ({format_duration(self.seconds)}): {', '.join(seen)}"
        patience = SILENT_SECONDS if silent else STILL_FOR_GOOD_SECONDS
        return CaptureTroubleError(told, self._remedy(silent), f"{what}{seen}", self.seconds >= patience)

    def _remedy(self, silent: CdcError | None) -> str:
        if silent:
            return silent.remedy
        if self.blockers:
            return "end that session"
        if self.missing:
            return "`cdc bootstrap` makes it again"
        return "see Kafka Connect's log; `cdc bootstrap` starts the connector anew"


class CaptureTroubleError(PreconditionError):
    """The capture does not go on. `kind` is the same for as long as the trouble is; `is_final`: who waits for the
    capture need not wait longer."""

    def __init__(self, what: str, remedy: str, kind: str, is_final: bool) -> None:
        super().__init__(what, remedy)
        self.kind = kind
        self.is_final = is_final


def to_capture_trouble(trouble: CdcError, newest_at: float | None, now: float) -> CaptureTroubleError:
    """The trouble of a connector, with how long the log has had no commit."""
    since = (
        f"; the newest commit in the log is from {_moment(newest_at)} ({format_duration(now - newest_at)} ago)"
        if newest_at
        else ""
    )
    return CaptureTroubleError(f"{trouble.what}{since}", trouble.remedy, str(trouble), True)


def format_duration(seconds: float) -> str:
    """A length of time as one reads it: 40 s, 12 min, 3 h 20 min."""
    whole = max(round(seconds), 0)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
