"""What a goal is: sides that run in turn, what is measured of each, and the limit that ours has to keep."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from tests.bench.arithmetic import Sample

if TYPE_CHECKING:
    from tests.bench.ground import Ground

OURS, STOCK = "ours", "stock"


class Failed(Exception):
    """A side did not get through; its message says why, for the report."""


class Scale(StrEnum):
    """How large a goal is run: `small` tries it out, `full` is what the goal's limit is about."""

    SMALL = "small"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a run."""

    name: str
    title: str
    unit: str
    more_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """The bound of a measure on `side`, at most or at least as the measure is better; `per` another side, a ratio."""

    measure: str
    bound: float
    side: str = OURS
    per: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a window took: wall seconds, CPU seconds and peak PSS by role, and the peak of all roles' sum."""

    seconds: float
    cpu: Mapping[str, float]
    peak: Mapping[str, int]
    peak_together: int

    @property
    def cpu_seconds(self) -> float:
        """Of all processes, the bench's own left out."""
        return sum(seconds for role, seconds in self.cpu.items() if role != "bench")


@dataclass(frozen=True, slots=True)
class Readings:
    """What one run of one side gave: numbers by measure, (time, value) samples by measure, and what it took."""

    values: Mapping[str, float]
    usage: Usage
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)


class Stage(Protocol):
    """A goal set up: its sides can be run in any order and any number of times."""

    def run(self, side: str) -> Readings:
        """Run one side once; raises Failed, or what a server or a process raised."""

    def differences(self, side: str) -> Sequence[str]:
        """Where the copy that a side has just worked on differs from Postgres, a sentence each; they void the run."""


Sizes = Mapping[str, int]
"""The goal's parameters by name; `stock_rounds` are the `rounds` of a stock side that takes minutes for each."""


def size_of(sizes: Sizes, name: str, side: str) -> int:
    """A parameter that the stock sides of a goal have one of their own for, as it holds for a side."""
    return sizes[f"{STOCK}_{name}" if side.startswith(STOCK) else name]


@dataclass(frozen=True, slots=True)
class Goal:
    """One benchmark. `sides` stand in the order in which they run; `ours` is the one that the limits are about."""

    name: str
    title: str
    asked: str
    sides: Sequence[str]
    measures: Sequence[Measure]
    limits: Sequence[Limit]
    sizes: Mapping[Scale, Sizes]
    stage: Callable[["Ground", Sizes], AbstractContextManager[Stage]]
    ratios: Sequence[tuple[str, str]] = ()
    """Pairs of sides whose values are divided; ours by each of the others where left out."""
    only_named: bool = False
    """Too long for a run of all: only when it is asked for by name."""

    @property
    def headline(self) -> Measure:
        return self.measures[0]

    @property
    def divided(self) -> Sequence[tuple[str, str]]:
        """The pairs of sides to divide."""
        return self.ratios or [(OURS, side) for side in self.sides if side != OURS and OURS in self.sides]
