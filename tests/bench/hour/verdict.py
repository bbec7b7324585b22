"""What the samples of the hour come to: the rate that was reached, peaks, whether files stay few, and recoveries."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any, Final

from tests.bench.arithmetic import percentiles
from tests.bench.hour.faults import Kill
from tests.bench.hour.samples import Sample
from tests.bench.hour.shop import Load

MOST_PYTHON: Final = 500.0
"""MiB that the driver's Python holds."""
FLAT: Final = 1.25
"""Files of the last third, by those of the middle one: what is kept for a while comes and goes."""
CLOSE_SECONDS: Final = 10.0
"""A follower has recovered when its lag is this close to what it was before the kill."""


def judge(samples: Sequence[Sample], kills: Sequence[Kill], load: Load, began: float) -> dict[str, Any]:
    """The numbers of a run, and whether they keep their limits."""
    peaks = {name: max((each[name] for each in samples if name in each), default=0.0) for name in ("held", "python")}
    lags = [sample["lake_lag"] for sample in samples if "lake_lag" in sample]
    recoveries = [describe_recovery(kill, samples, began) for kill in kills]
    seconds = [each["recovered"] for each in recoveries if each["recovered"] is not None]
    growth = {name: grow(samples, name) for name in ("files", "live_files", "mib", "held")}
    per_row = grow(samples, "mib", by="rows")
    return {
        "rate_asked": load.rate,
        "rate_reached": reached_rate(samples),
        "commits": max((sample.get("commits", 0) for sample in samples), default=0),
        "python_peak_mib": peaks,
        "lake_lag": {name: round(value, 2) for name, value in percentiles(lags).items()},
        "growth_of_last_third": {**growth, "mib_per_row": per_row},
        "recoveries": recoveries,
        "recovery": {name: round(value, 2) for name, value in percentiles(seconds).items()},
        "limits": {
            "python_holds_below_500_mib": peaks["held"] <= MOST_PYTHON,
            "files_flat": is_flat(growth["live_files"]) and is_flat(growth["files"]),
            "all_recovered": len(seconds) == len(kills),
        },
    }


def reached_rate(samples: Sequence[Sample]) -> float:
    """Transactions a second, from the first sample to the last; what a crash takes is part of it."""
    counted = [(sample["at"], sample["commits"]) for sample in samples if "commits" in sample]
    if len(counted) < 2:
        return 0.0
    (first, before), (last, after) = counted[0], counted[-1]
    seconds, commits = float(last - first), int(after - before)
    return round(commits / seconds, 1)


def grow(samples: Sequence[Sample], name: str, by: str | None = None) -> float | None:
    """The mean of the last third of a run, by that of the middle third; of a quotient, with `by`."""
    end = samples[-1]["at"] if samples else 0.0
    found = [(sample["at"], sample[name] / (sample[by] if by else 1)) for sample in samples if sample.get(by or name)]
    middle = [value for at, value in found if end / 3 <= at < 2 * end / 3]
    last = [value for at, value in found if at >= 2 * end / 3]
    return round(fmean(last) / fmean(middle), 3) if middle and last and fmean(middle) else None


def is_flat(growth: float | None) -> bool:
    return growth is not None and growth <= FLAT


def describe_recovery(kill: Kill, samples: Sequence[Sample], began: float) -> dict[str, Any]:
    """How long a kill was felt: until the part was back, until the lake and until every follower were as close as
    before. None where that did not come before the run's end."""
    at = kill.at - began
    before = [sample for sample in samples if at - 30 <= sample["at"] < at]
    # a part that was not started again: who hears nothing of it may seem as close as before
    after = [sample for sample in samples if kill.back and sample["at"] > kill.back - began]
    lake = _first(after, lambda sample: _is_close(sample.get("lake_lag"), [each.get("lake_lag") for each in before]))
    names = {name for sample in samples for name in sample.get("lags", {})}

    def are_close(sample: Sample) -> bool:
        has: Mapping[str, float] = sample.get("lags", {})
        return bool(has) and all(
            _is_close(has.get(name), [each.get("lags", {}).get(name) for each in before]) for name in names
        )

    everything = _first(after, lambda sample: are_close(sample))
    return {
        "part": kill.part,
        "at": round(at, 1),
        "back": round(kill.back - kill.at, 1) if kill.back else None,
        "lake": round(lake - at, 1) if lake is not None else None,
        "recovered": round(everything - at, 1) if everything is not None else None,
        "said": kill.said,
    }


def _is_close(lag: float | None, before: Sequence[float | None]) -> bool:
    known = [value for value in before if value is not None]
    return lag is not None and lag <= (median(known) if known else 0.0) + CLOSE_SECONDS


def _first(samples: Sequence[Sample], holds: Callable[[Sample], bool]) -> float | None:
    return next((sample["at"] for sample in samples if holds(sample)), None)
