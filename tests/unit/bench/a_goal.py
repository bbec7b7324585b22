"""A goal without servers: what its sides give is written down beforehand."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.bench.goal import Failed, Goal, Limit, Measure, Readings, Scale, Sizes, Usage
from tests.bench.ground import Ground

TIME = Measure("time", "time", "s")
RATE = Measure("rate", "rate", "1/s", more_is_better=True)
USAGE = Usage(2.0, {"spark": 1.5, "kafka": 0.5, "bench": 9.0}, {"spark": 2**30, "bench": 2**20}, 2**30)


@dataclass(slots=True)
class Told:
    """Gives the next of `times` at each run, fails where that is negative, and differs where it is told to."""

    times: list[float]
    differing: Sequence[str] = ()
    ran: list[str] = field(default_factory=list)

    def run(self, side: str) -> Readings:
        self.ran.append(side)
        seconds = self.times[len(self.ran) - 1]
        if seconds < 0:
            raise Failed("it fell over")
        return Readings({"time": seconds, "rate": 1 / seconds}, USAGE, {"time": [(n, seconds) for n in range(3)]})

    def differences(self, side: str) -> list[str]:
        return ["orders differs in note"] if side in self.differing else []


@contextmanager
def no_stage(ground: Ground, sizes: Sizes) -> Iterator[Told]:
    yield Told([])


GOAL = Goal(
    "told",
    "A goal that is told",
    "≤ 2 s, half of stock's time",
    ("ours", "stock"),
    (TIME, RATE),
    (Limit("time", 2.0), Limit("time", 0.5, per="stock"), Limit("rate", 1.0)),
    {Scale.SMALL: {"rows": 1}, Scale.FULL: {"rows": 2}},
    no_stage,
)
ABOUT: dict[str, Any] = {
    "when": "2026-01-01T00:00:00+00:00",
    "commit": "0123456789ab",
    "machine": {"processor": "one", "cores": 2, "memory_gib": 8.0, "system": "Linux", "load_before": [0.1, 0.1, 0.1]},
    "versions": {"python": "3.11"},
    "settings": {},
}
