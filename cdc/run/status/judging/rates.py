"""Rates from successive looks: how fast the slot fills, whether a follower catches up, and how fresh it is."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cdc.columns.netting.ends import Ends

SLOT_SECONDS: Final = 1800.0
"""The rate at which the slot fills is that of so long."""
SLOT_STEP_SECONDS: Final = 15.0
LEAST_SECONDS: Final = 60.0
"""Over less time, a rate says nothing."""
RATE_SECONDS: Final = 60.0
FAR_SECONDS: Final = 60 * 86_400.0
"""A slot that would be full later than this does not fill."""
_NOISE: Final = 0.05
"""Rates that differ by less are the same."""

Sample = tuple[float, int]


def fill_rate(samples: Sequence[Sample]) -> float | None:
    """Bytes a second by which a slot grows, from samples (seconds, bytes) in order; None while it is too early.

    The least of the older half against the least of the newer: a slot moves on in steps, and only its floor tells.
    """
    if len(samples) < 4 or (span := samples[-1][0] - samples[0][0]) < LEAST_SECONDS:
        return None
    middle = samples[0][0] + span / 2
    older = min(size for at, size in samples if at < middle)
    newer = min(size for at, size in samples if at >= middle)
    return max(newer - older, 0) / (span / 2)


def seconds_until_full(room: int | None, rate: float | None) -> float | None:
    """The time until so many bytes are used up; None without a limit, or where nothing grows."""
    if room is None or not rate:
        return None
    seconds = max(room, 0) / rate
    return seconds if seconds < FAR_SECONDS else None


@dataclass(frozen=True, slots=True)
class ChangeRates:
    """Changes a second that arrive for a follower, and those that it applies; None while it is too early."""

    arrives: float | None = None
    applies: float | None = None

    def trend(self, seconds: float) -> str | None:
        """Whether a follower that is `seconds` behind catches up."""
        if self.arrives is None or self.applies is None or not seconds:
            return None
        if not self.applies:
            return "not catching up"
        margin = max(self.arrives * _NOISE, 0.1)
        if self.applies > self.arrives + margin:
            return "catching up"
        return "falling behind" if self.applies < self.arrives - margin else "not catching up"

    def caught_up_in(self, waiting: int) -> float | None:
        """The seconds until a follower with so many changes waiting has none; None unless it catches up."""
        if self.trend(1.0) != "catching up" or self.arrives is None or self.applies is None:
            return None
        return waiting / (self.applies - self.arrives)


def count_arrived(ends: Ends, tables: Iterable[str], since: float, until: float) -> int:
    """The changes of these tables that were committed in this time (seconds since 1970)."""
    at = ends.committed_ms / 1000
    return sum(ends.where((at > since) & (at <= until)).counts(tables).values())


def percentile(values: Sequence[float], percent: float) -> float | None:
    return float(np.percentile(values, percent)) if values else None


@dataclass(slots=True)
class Past:
    """What the last looks have seen, as far as rates need it."""

    slot: deque[Sample] = field(default_factory=lambda: deque(maxlen=round(SLOT_SECONDS / SLOT_STEP_SECONDS)))
    waiting: dict[str, deque[Sample]] = field(default_factory=dict)
    """By follower: when it lacked how many changes, by the source's clock."""

    reader: int | None = None
    sessions: int = 1
    totals: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)

    def count_sessions(self, pid: int | None) -> int:
        """Note who reads the slot; returns how many sessions have been seen on it so far, and 1 before the first."""
        if pid is not None:
            self.sessions += self.reader is not None and self.reader != pid
            self.reader = pid
        return self.sessions

    def measure_total(self, name: str, at: float, total: float) -> float | None:
        """Note a total that only grows; returns by how much a second over the last minute, None while it is too early.

        One that has become less began anew, with the process that tells it.
        """
        samples = self.totals.setdefault(name, deque())
        if samples and total < samples[-1][1]:
            samples.clear()
        samples.append((at, total))
        while samples[0][0] < at - RATE_SECONDS:
            samples.popleft()
        began, before = samples[0]
        return (total - before) / (at - began) if at - began >= RATE_SECONDS / 4 else None

    def note_slot(self, at: float, size: int) -> None:
        """Note the slot's size; one that was made anew begins anew."""
        if not self.slot or at - self.slot[-1][0] >= SLOT_STEP_SECONDS:
            self.slot.append((at, size))

    def measure(self, name: str, at: float, waiting: int, ends: Ends, tables: Sequence[str]) -> ChangeRates:
        """Note what a follower lacks now; returns its pace over the last minute."""
        samples = self.waiting.setdefault(name, deque())
        samples.append((at, waiting))
        while samples[0][0] < at - RATE_SECONDS:
            samples.popleft()
        arrives = count_arrived(ends, tables, at - RATE_SECONDS, at) / RATE_SECONDS
        began, before = samples[0]
        if at - began < RATE_SECONDS / 4:
            return ChangeRates(arrives)
        arrived = count_arrived(ends, tables, began, at)
        return ChangeRates(arrives, max(arrived + before - waiting, 0) / (at - began))
