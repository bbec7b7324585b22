"""Measures that several goals have, and what is worked out of latencies."""

import math
from collections.abc import Mapping, Sequence

from tests.bench.arithmetic import Sample, drift, percentiles
from tests.bench.goal import Measure, Usage
from tests.bench.world.ledger import Commit

CPU = Measure("cpu", "CPU of all processes", "s")
JOB_CPU = Measure("job_cpu", "CPU of the job", "s")
MEMORY = Measure("memory", "peak memory of the job", "MiB")
SECONDS = Measure("seconds", "wall", "s")
LATENCIES = tuple(Measure(name, name, "s") for name in ("p50", "p95", "p99", "max"))
UNSEEN = Measure("unseen", "changes without a sighting of their own", "")
DRIFT = Measure("drift", "last fifth's median above the first's", "s")
PER_SECOND = Measure("rate", "changes a second", "1/s", more_is_better=True)

JOB_ROLES = ("driver", "spark", "workers")
PARTS_ROLES = ("postgres", "kafka", "connect", "search")


def taken(usage: Usage) -> dict[str, float]:
    """CPU and memory of a window, as measures."""
    return {
        "cpu": usage.cpu_seconds,
        "job_cpu": sum(usage.cpu.get(role, 0.0) for role in JOB_ROLES),
        "memory": sum(usage.peak.get(role, 0) for role in JOB_ROLES) / 2**20,
        "seconds": usage.seconds,
    }


def latencies(commits: Sequence[Commit], seen_at: Sequence[float]) -> list[Sample]:
    """(commit, seconds until it was seen) of the transactions that were seen."""
    pairs = zip(commits, seen_at, strict=True)
    return [(commit.at, seen - commit.at) for commit, seen in pairs if not math.isnan(seen)]


def of_latencies(samples: Sequence[Sample], commits: int) -> dict[str, float]:
    """Percentiles, drift, and how many were never seen."""
    values: Mapping[str, float] = percentiles([seconds for _, seconds in samples])
    return {**values, "drift": drift(samples), "unseen": float(commits - len(samples))}
