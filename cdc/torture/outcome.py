"""The result of a run: what happened, how long everything took to come back, and the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any, Final

import msgspec

from cdc.core.errors import CdcError, DivergenceError
from cdc.torture.schedule import FaultSchedule, PlannedFault

EQUAL: Final = "equal"


@dataclass(frozen=True, slots=True)
class FaultResult:
    """A fault that was caused, or `left_out`, with the reason.

    `recovered`: seconds until all followers showed what was committed at its end; of faults at once, the last has them,
    and none where the run ended before.
    `told`: what the toolkit said meanwhile, and what was done for it.
    """

    fault: PlannedFault
    recovered: float | None = None
    left_out: str = ""
    told: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        seconds = None if self.recovered is None else round(self.recovered, 1)
        more = {"left_out": self.left_out} if self.left_out else {}
        return {**msgspec.to_builtins(self.fault), "recovered_seconds": seconds, "told": list(self.told), **more}


@dataclass(slots=True)
class TortureOutcome:
    """A run, as far as it came. `failure`: what ended it, None if everything was equal at the end."""

    schedule: FaultSchedule
    faults: list[FaultResult] = field(default_factory=list)
    written: int = 0
    reads: int = 0
    proofs: list[str] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)
    seconds: float = 0.0
    failure: CdcError | None = None
    evidence: list[str] = field(default_factory=list)
    """What the parts said last, of a failed run: its folder is gone."""

    @property
    def verdict(self) -> str:
        if self.failure is None:
            return EQUAL
        return "different" if isinstance(self.failure, DivergenceError) else "stopped"

    @property
    def recoveries(self) -> list[float]:
        return [each.recovered for each in self.faults if each.recovered is not None]

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.schedule.seed,
            "verdict": self.verdict,
            "error": str(self.failure) if self.failure else None,
            "rate": self.schedule.rate,
            "writers": list(self.schedule.writers),
            "faults": [each.as_json() for each in self.faults],
            "faults_planned": len(self.schedule.faults),
            "recovery_seconds": summarize(self.recoveries),
            "transactions": self.written,
            "reads": self.reads,
            "equal_at": self.proofs,
            "remedies": self.remedies,
            "seconds": round(self.seconds, 1),
            "evidence": self.evidence,
        }


def summarize(seconds: Sequence[float]) -> dict[str, float | None]:
    """The median, the 95th percentile and the longest."""
    if not seconds:
        return {"p50": None, "p95": None, "max": None}
    # of one alone there are no quantiles
    parts = quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 19
    return {"p50": round(parts[9], 1), "p95": round(parts[18], 1), "max": round(max(seconds), 1)}
