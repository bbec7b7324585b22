"""What is kept of a goal's runs: every value, where and with what it was measured; as JSON, and read back."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.bench.arithmetic import Sample, Spread, ratios, spread, thinned
from tests.bench.goal import Goal, Limit, Measure, Readings, Usage

MOST_SAMPLES = 20_000
"""Samples of one run that are kept; percentiles are of all of them."""


@dataclass(frozen=True, slots=True)
class Run:
    """One side of one pair. `trouble` says why its values do not count: void or failed."""

    pair: int
    side: str
    started: str
    values: Mapping[str, float] = field(default_factory=dict)
    usage: Usage | None = None
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    trouble: str | None = None

    @classmethod
    def of(cls, pair: int, side: str, started: str, readings: Readings) -> "Run":
        values = {name: value for name, value in readings.values.items() if not math.isnan(value)}
        kept = {name: thinned(samples, MOST_SAMPLES) for name, samples in readings.samples.items()}
        return cls(pair, side, started, values, readings.usage, kept)


@dataclass(frozen=True, slots=True)
class Record:
    """A goal as it was run."""

    goal: str
    title: str
    asked: str
    sides: Sequence[str]
    measures: Sequence[Measure]
    limits: Sequence[Limit]
    divided: Sequence[tuple[str, str]]
    scale: str
    sizes: Mapping[str, int]
    about: Mapping[str, Any]
    """Machine, versions, git commit, when."""
    runs: Sequence[Run]

    @property
    def ground(self) -> tuple[Any, ...]:
        """What two runs have to have in common to be compared."""
        machine = {name: value for name, value in self.about["machine"].items() if name != "load_before"}
        return (self.scale, self.sizes, self.about["commit"], machine, self.about["versions"], self.about["settings"])

    @property
    def pairs(self) -> int:
        return 1 + max((run.pair for run in self.runs), default=-1)

    def with_runs(self, runs: Iterable[Run]) -> "Record":
        return replace(self, runs=[*self.runs, *runs])

    @property
    def headline(self) -> Measure:
        return self.measures[0]

    def values(self, side: str, measure: str) -> dict[int, float]:
        """The values that count, by pair."""
        return {
            run.pair: run.values[measure]
            for run in self.runs
            if run.side == side and run.trouble is None and measure in run.values
        }

    def spread(self, side: str, measure: str) -> Spread | None:
        return spread(self.values(side, measure).values())

    def ratio(self, measure: str, side: str, per: str) -> Spread | None:
        """One side by another, pair by pair."""
        return spread(ratios(self.values(side, measure), self.values(per, measure)).values())

    def runs_of(self, side: str) -> list[Run]:
        return [run for run in self.runs if run.side == side and run.trouble is None]

    @property
    def troubles(self) -> list[str]:
        return [f"pair {run.pair + 1}, {run.side}: {run.trouble}" for run in self.runs if run.trouble]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A limit and what was reached; None where no run counts."""

    limit: Limit
    measure: Measure
    reached: Spread | None

    @property
    def met(self) -> bool | None:
        """Does the median keep the bound?"""
        if self.reached is None:
            return None
        value, bound = self.reached.median, self.limit.bound
        return value >= bound if self.measure.more_is_better else value <= bound


def verdicts(record: Record) -> list[Verdict]:
    """Every limit of the goal, with what was reached."""
    measures = {measure.name: measure for measure in record.measures}
    return [Verdict(limit, measures[limit.measure], _reached(record, limit)) for limit in record.limits]


def _reached(record: Record, limit: Limit) -> Spread | None:
    if limit.per:
        return record.ratio(limit.measure, limit.side, limit.per)
    return record.spread(limit.side, limit.measure)


def recorded(goal: Goal, scale: str, sizes: Mapping[str, int], about: Mapping[str, Any], runs: Sequence[Run]) -> Record:
    """The record of a goal that has run."""
    return Record(
        goal.name,
        goal.title,
        goal.asked,
        goal.sides,
        goal.measures,
        goal.limits,
        goal.divided,
        scale,
        sizes,
        about,
        runs,
    )


def write(record: Record, folder: Path) -> Path:
    """Write the record to `<folder>/<goal>.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{record.goal}.json"
    summary = {side: {m.name: _plain(record.spread(side, m.name)) for m in record.measures} for side in record.sides}
    file.write_text(json.dumps({**asdict(record), "summary": summary}, indent=1) + "\n")
    return file


class NotComparableError(Exception):
    """What is there was measured elsewhere, or of something else."""


def gone_on_with(record: Record, folder: Path) -> Record:
    """The record with the runs that are in the folder already. Raises NotComparableError."""
    file = folder / f"{record.goal}.json"
    if not file.exists():
        return record
    found = read(file)
    if found.ground != record.ground:
        raise NotComparableError(
            f"{file} is of another machine, commit, version or size: take another --out, or no --more"
        )
    return found


def read(file: Path) -> Record:
    """Read a record back."""
    value = json.loads(file.read_text())
    value.pop("summary", None)
    return Record(
        **{
            **value,
            "measures": [Measure(**each) for each in value["measures"]],
            "limits": [Limit(**each) for each in value["limits"]],
            "divided": [tuple(each) for each in value["divided"]],
            "runs": [_run(each) for each in value["runs"]],
        }
    )


def _run(value: Mapping[str, Any]) -> Run:
    samples = {name: [(at, each) for at, each in kept] for name, kept in value["samples"].items()}
    usage = Usage(**value["usage"]) if value["usage"] else None
    return Run(**{**value, "samples": samples, "usage": usage})


def _plain(found: Spread | None) -> dict[str, float] | None:
    return asdict(found) if found else None
