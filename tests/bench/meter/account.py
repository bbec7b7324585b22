"""CPU seconds of process trees by role, of processes that have ended too: pure bookkeeping over observations."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Key = tuple[int, float]
"""A process for good: its pid, and when it was started."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A process as it was seen: CPU seconds of its own, and of its ended children, which the system adds to it."""

    key: Key
    parent: Key | None
    role: str
    heirs: str
    """The role of its children, whose seconds it inherits when they end."""
    own: float
    inherited: float


@dataclass(slots=True)
class Account:
    """Everything that was seen so far.

    A process that ended was waited for by its parent, which then has its seconds; where the parent has ended too, what
    was seen last of both still counts.
    """

    _last: dict[Key, Observed] = field(default_factory=dict)
    _gone: dict[str, float] = field(default_factory=dict)

    def see(self, alive: Iterable[Observed]) -> None:
        """Take in one look at all processes."""
        now = {each.key: each for each in alive}
        for key in self._last.keys() - now.keys():
            self._bury(self._last[key], now)
        self._last = now

    def seconds(self) -> dict[str, float]:
        """CPU seconds by role since each process began."""
        total = dict(self._gone)
        for each in self._last.values():
            _add(total, each.role, each.own)
            _add(total, each.heirs, each.inherited)
        return total

    def _bury(self, ended: Observed, now: Mapping[Key, Observed]) -> None:
        if ended.parent in now:
            return
        _add(self._gone, ended.role, ended.own)
        _add(self._gone, ended.heirs, ended.inherited)


def since(then: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """What was added by role; a role that was not there began at nothing."""
    return {role: round(max(seconds - then.get(role, 0.0), 0.0), 3) for role, seconds in now.items()}


def _add(total: dict[str, float], role: str, seconds: float) -> None:
    total[role] = total.get(role, 0.0) + seconds
