"""The harness' own arithmetic: pure functions over numbers, tested in tests/unit/bench."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

PERCENTILES: Mapping[str, float] = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}

Sample = tuple[float, float]
"""When something was measured, and what it was."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some values, and how far they lie apart."""

    median: float
    least: float
    most: float
    count: int


def spread(values: Iterable[float]) -> Spread | None:
    """Median, least and most of `values`; None where there are none."""
    known = [value for value in values if not math.isnan(value)]
    return Spread(median(known), min(known), max(known), len(known)) if known else None


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all do not exceed (nearest rank); NaN of no values."""
    if not values:
        return math.nan
    rank = math.ceil(percent / 100 * len(values))
    return sorted(values)[max(rank, 1) - 1]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and max."""
    ordered = sorted(values)
    return {name: percentile(ordered, percent) for name, percent in PERCENTILES.items()}


def drift(samples: Sequence[Sample]) -> float:
    """How much the median of the last fifth of (time, value) lies above that of the first fifth; NaN below ten."""
    fifth = len(samples) // 5
    if fifth < 2:
        return math.nan
    values = [value for _, value in sorted(samples)]
    return median(values[-fifth:]) - median(values[:fifth])


def ratios(ours: Mapping[int, float], theirs: Mapping[int, float]) -> dict[int, float]:
    """Ours by theirs, pair by pair; pairs that lack a side, and values of nothing or below, are left out."""
    return {pair: value / theirs[pair] for pair, value in ours.items() if value >= 0 and theirs.get(pair, 0.0) > 0}


def thinned(samples: Sequence[Sample], most: int) -> list[Sample]:
    """At most `most` of the samples, evenly spaced, first and last among them."""
    if len(samples) <= most:
        return list(samples)
    step = (len(samples) - 1) / (most - 1)
    return [samples[round(step * n)] for n in range(most)]
