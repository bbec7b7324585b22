"""The result of a race."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RaceResult:
    """Counts of keys, and of those that differed between the stores after all writes had arrived."""

    seed: int
    failures: int
    pairs: int
    dual_write_diverged: int
    partial_failure_diverged: int
    cdc_diverged: int

    def as_json(self) -> dict[str, Any]:
        """The counts, without `failures`."""
        names = ("pairs", "dual_write_diverged", "partial_failure_diverged", "cdc_diverged", "seed")
        return {name: getattr(self, name) for name in names}
