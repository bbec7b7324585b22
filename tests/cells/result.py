"""What came of a cell, and the table of many."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from cdc.torture.outcome import summarize
from tests.cells.cell import KINDS, Cell

Verdict = Literal["equal", "told, then equal", "not reached", "unproved", "untranslated", "differs", "stuck"]
GOOD: Final[tuple[Verdict, ...]] = ("equal", "told, then equal")


@dataclass(frozen=True, slots=True)
class Result:
    """`recovery`: seconds from the end of the fault until readers of every follower saw all that was committed then.

    `told`: what the pipeline said, with its remedy, where it did not go on by itself. `found`: what differs.
    `waited`: of the last wait of the recovery, when each follower was there. Verdict "untranslated": what was told was
    no line of ours, but an exception.
    """

    cell: Cell
    verdict: Verdict
    recovery: float = 0.0
    seconds: float = 0.0
    told: str = ""
    found: str = ""
    waited: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self.cell), **{name: value for name, value in asdict(self).items() if name != "cell"}}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Result":
        of_cell = {each.name for each in fields(Cell)}
        rest = {name: value for name, value in record.items() if name not in of_cell}
        return cls(Cell(**{name: record[name] for name in of_cell}), **rest)

    def __str__(self) -> str:
        more = f": {self.found or self.told}" if self.found or self.told else ""
        return f"{self.cell.id}: {self.verdict}, {self.recovery:.1f} s of {self.seconds:.1f} {dict(self.waited)}{more}"


def read_results(file: Path | None) -> list[Result]:
    """What runs before have left in a file, of each cell the last one; nothing where there is none."""
    lines = file.read_text().splitlines() if file and file.exists() else []
    results = [Result.from_json(json.loads(line)) for line in lines]
    return [*{each.cell: each for each in results}.values()]


def to_table(results: Sequence[Result]) -> str:
    """The cells by kind, with their verdicts and recovery times."""
    lines = ["| kind | cells | equal | told, then equal | other | p50 s | p95 s |", "|---|---|---|---|---|---|---|"]
    for kind in (*KINDS, "all"):
        own = [each for each in results if kind in (each.cell.kind, "all")]
        if not own:
            continue
        count = Counter(each.verdict for each in own)
        times = [each.recovery for each in own if each.verdict in GOOD]
        other = len(own) - count["equal"] - count["told, then equal"]
        found = summarize(times)
        seconds = f"{found['p50'] or 0:.1f} | {found['p95'] or 0:.1f}"
        numbers = f"{len(own)} | {count['equal']} | {count['told, then equal']} | {other} | {seconds}"
        lines.append(f"| {kind} | {numbers} |")
    return "\n".join(lines)
