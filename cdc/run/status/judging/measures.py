"""What is measured from the facts of a look: lags, paces, and the slot; no I/O."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from cdc.config.settings import VIEWS, PipelineSettings
from cdc.connect.source.slots.slot_health import SourceLook
from cdc.core.counters import GROUPS
from cdc.core.position import Position, format_lsn
from cdc.core.table import TableName
from cdc.log.transaction_topic import LAST_MESSAGES
from cdc.run.health.slot_budget import find_room
from cdc.run.health.slot_holder import find_slot_holder
from cdc.run.health.standstill import is_recent
from cdc.run.status.asking.facts import Facts, LogLook
from cdc.run.status.judging.lag import Lag, LagMeter
from cdc.run.status.judging.rates import (
    RATE_SECONDS,
    ChangeRates,
    Past,
    count_arrived,
    fill_rate,
    percentile,
    seconds_until_full,
)
from cdc.run.status.judging.states import Judged
from cdc.run.status.things import Slot, State, to_time

FEW: Final = LAST_MESSAGES // 4
"""ENDs: a log of which no more were read has no more."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A follower's lag, its pace, and the tables that it holds."""

    lag: Lag | None
    pace: ChangeRates
    tables: Sequence[str]


class Measures:
    """Everything that is measured in one look. Takes note of it in `past`, so it is made once a look."""

    def __init__(self, settings: PipelineSettings, facts: Facts, past: Past) -> None:
        self._settings = settings
        self._facts = facts
        self._past = past
        self.followers: Mapping[str, Measured] = dict(self._measure_all())

    @cached_property
    def source(self) -> SourceLook | None:
        """The look at the source, if it answers."""
        return self._facts.source.value if self._facts.source.error is None else None

    @cached_property
    def log(self) -> LogLook:
        return self._facts.log.value or LogLook()

    @cached_property
    def now(self) -> float:
        """The source's clock, or this machine's while the source does not answer."""
        return self.source.now if self.source else self._facts.now

    @cached_property
    def log_age(self) -> float | None:
        """Seconds since the newest commit in the log."""
        return max(self.now - self.log.newest_at, 0.0) if self.log.newest_at is not None else None

    @cached_property
    def is_log_current(self) -> bool:
        """Is the newest commit as young as heartbeats keep it?"""
        beats = self._settings.source.heartbeat_seconds
        return self._facts.log.error is None and is_recent(self.log.newest_at, self.now, beats)

    def position(self, name: str) -> Position | None:
        """The last known position of a follower, or of the views."""
        if name == self._settings.delta[0]:
            look = self._facts.lake.value
            return look.position if look else None
        if name == VIEWS:
            views = self._facts.views.value
            return views.cut.position if views and views.cut else None
        found = self._facts.fed[name].value if name in self._facts.fed else None
        return found.position if found else None

    def headroom_seconds(self, name: str) -> float | None:
        """The time until the log's retention takes what the lake lacks; other followers do not read the log."""
        lag = self.followers[name].lag
        if name != self._settings.delta[0] or lag is None:
            return None
        return round(3600 * self._settings.log.retention_hours - lag.seconds)

    def hop_seconds(self, name: str) -> float | None:
        """The median time that a follower adds: to that of the log, or to the lake's where it is fed from that."""
        total = self._median_freshness(name)
        before = (
            self.log.hop_seconds if name == self._settings.delta[0] else self._median_freshness(self._settings.delta[0])
        )
        return None if total is None or before is None else round(max(total - before, 0.0), 2)

    def _median_freshness(self, name: str) -> float | None:
        stream = self._facts.streams.get(name)
        return percentile(stream.report.freshness, 50) if stream and stream.report else None

    def groups_per_minute(self, view: str) -> float | None:
        """The rows of a view that were computed anew in the last minute; None while nobody tells."""
        told = [stream.report.counts or {} for stream in self._facts.streams.values() if stream.report]
        totals = [counts[GROUPS][view] for counts in told if view in counts.get(GROUPS, ())]
        rate = self._past.measure_total(view, self._facts.now, sum(totals)) if totals else None
        return None if rate is None else round(60 * rate, 1)

    def changes_per_minute(self, table: str) -> float:
        return 60 * self.changes_per_second([table])

    def changes_per_second(self, tables: Iterable[str]) -> float:
        """The changes of these tables that were committed in the last minute, or since the first END that was read."""
        ends, seconds = self.log.ends, RATE_SECONDS
        # who looks once reads the newest alone; of a quiet log these are all of a minute
        if len(ends) > FEW:
            seconds = min(max(self.now - float(ends.committed_ms[0]) / 1000, 1.0), RATE_SECONDS)
        return count_arrived(ends, tables, self.now - seconds, self.now) / seconds

    def changes_waiting(self, table: str, lsn: int) -> int:
        """The changes of a table in the log above an LSN."""
        return self.log.ends.where(self.log.ends.lsn > lsn).counts([table]).get(table, 0)

    def _measure_all(self) -> Iterator[tuple[str, Measured]]:
        look = self._facts.tables.value
        for name in self._settings.stream_names:
            holders = look.holders.items() if look else ()
            held = (
                [table for table, by in holders if name in by] if name != VIEWS else list(look.holders if look else ())
            )
            yield name, self._measure(name, held)

    def _measure(self, name: str, held: Sequence[str]) -> Measured:
        position = self.position(name)
        if self.source is None or self._facts.log.error or not self._facts.log.value or not self._facts.tables.value:
            return Measured(None, ChangeRates(), held)
        tables = [TableName.parse(table) for table in held]
        lag = LagMeter(tables, self.source.lsn, self.now, self.log.ends, self.is_log_current).measure(position)
        if lag is None:
            return Measured(None, ChangeRates(), held)
        return Measured(lag, self._past.measure(name, self.now, lag.changes, self.log.ends, held), held)

    def describe_slot(self, capture: Judged) -> Slot | None:
        """The slot, with the time until it is full; None while the source has not answered."""
        look, name = self._facts.source.value, self._settings.source.slot
        if look is None:
            return None
        if (state := look.slot) is None:
            return Slot(name=name, state=State.NEW, word="does not exist yet", limit_bytes=look.limit_bytes)
        if self.source is not None:
            self._past.note_slot(look.now, state.retained_bytes)
        budget = self._settings.source.slot_budget
        room = find_room(look, budget)
        rate = fill_rate(self._past.slot)
        rate = look.wal_rate if rate is None else rate
        seconds = seconds_until_full(room.left_bytes if room else None, rate)
        is_lost = state.wal_status == "lost"
        word = "lost" if is_lost else "filling" if seconds else "moves on" if state.active else "nobody reads it"
        confirmed = state.confirmed_lsn
        return Slot(
            name=name,
            state=State.FAILED if is_lost else State.BEHIND if seconds else State.OK if state.active else State.STILL,
            word=word,
            active=state.active,
            wal_status=state.wal_status,
            retained_bytes=state.retained_bytes,
            limit_bytes=room.limit_bytes if room else None,
            safe_bytes=room.left_bytes if room else None,
            limited_by=room.name if room else None,
            policy=budget.on_exceeded.value,
            bytes_per_second=round(rate, 1) if rate is not None else None,
            full_in_seconds=round(seconds) if seconds else None,
            full_at=to_time(look.now + seconds) if seconds else None,
            **self._describe_holder(look, capture),
            spilled_bytes=look.spilled_bytes,
            confirmed_lsn=format_lsn(confirmed) if confirmed is not None else None,
            restart_lsn=format_lsn(state.restart_lsn) if state.restart_lsn is not None else None,
            unconfirmed_bytes=max(look.lsn - confirmed, 0) if confirmed is not None else None,
            inactive_seconds=round(look.now - look.inactive_since)
            if look.inactive_since and not state.active
            else None,
            xmin_age_transactions=look.xmin_age,
            restarts=self._past.count_sessions(state.active_pid) - 1,
        )

    def _describe_holder(self, look: SourceLook, capture: Judged) -> Mapping[str, Any]:
        """Whom the slot waits for: a capture that does not go on, or a transaction that has been open for long."""
        if capture.is_broken:
            return {"held_by": f"the capture, which {capture.word}"}
        holder = find_slot_holder(look.oldest, look.slot.retained_bytes if look.slot else None, look.now)
        if holder is None:
            return {}
        seconds = {} if holder.seconds is None else {"held_seconds": round(holder.seconds)}
        return {"held_by": holder.text, "release": holder.release, **seconds}
