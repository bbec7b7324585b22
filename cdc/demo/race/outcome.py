"""The result of a race."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from cdc.demo.race.schedule import Schedule


@dataclass(frozen=True, slots=True)
class RaceResult:
    """Counts of keys, and of those that differed between the stores after all writes had arrived."""

    pairs: int
    dual_write_diverged: int
    partial_failure_diverged: int
    cdc_diverged: int
    seed: int
    failures: int

    def as_json(self) -> dict[str, Any]:
        """The counts, without `failures`."""
        return {name: count for name, count in asdict(self).items() if name != "failures"}


def judge_race(plan: Schedule, dual: Collection[str], through_log: Collection[str]) -> RaceResult:
    """Count the keys that differ by dual writes, and through the log."""
    # every write has its own key: a key that differs, and is no pair's, is that of a failed write
    apart = len({*plan.pairs} & {*dual})
    return RaceResult(len(plan.pairs), apart, len(dual) - apart, len(through_log), plan.seed, len(plan.failing))
