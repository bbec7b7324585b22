"""What a race found, as a value."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was read back from both stores when nothing was on its way any more."""

    seed: int
    failures: int
    pairs: int
    dual_write_diverged: int
    partial_failure_diverged: int
    cdc_diverged: int

    def as_json(self) -> dict[str, Any]:
        """The counts that the race is about."""
        names = ("pairs", "dual_write_diverged", "partial_failure_diverged", "cdc_diverged", "seed")
        return {name: getattr(self, name) for name in names}
