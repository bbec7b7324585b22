"""What a run was asked to do: the command line, read."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.goal import Goal, Scale
from tests.bench.goals import GOALS

OUT = Path("bench-results")


@dataclass(frozen=True, slots=True)
class Plan:
    """The goals to run and how; no pairs mean that the report is made anew of what is there."""

    goals: Sequence[Goal]
    pairs: int
    scale: Scale
    out: Path
    scratch: Path | None
    sizes: Mapping[str, int]
    settings: Mapping[str, Any]
    sides: Sequence[str]
    more: bool
    list_only: bool

    def sides_of(self, goal: Goal) -> list[str]:
        """The goal's sides, or those of them that were asked for."""
        return [side for side in goal.sides if not self.sides or side in self.sides]

    def sizes_of(self, goal: Goal) -> dict[str, int]:
        """The goal's parameters at this scale, changed as asked."""
        own = dict(goal.sizes[self.scale])
        return own | {name: value for name, value in self.sizes.items() if name in own}


def planned(arguments: Sequence[str] | None = None) -> Plan:
    """Read the command line; ends the process when it cannot be read."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.goals if name not in GOALS]:
        parser.error(f"there is no goal {unknown[0]}; --list names them")
    goals = [GOALS[name] for name in asked.goals] or [goal for goal in GOALS.values() if not goal.only_named]
    sizes = {name: int(number) for name, number in asked.size}
    if unused := [name for name in sizes if not any(name in goal.sizes[asked.scale] for goal in goals)]:
        parser.error(f"no goal has a size {unused[0]}")
    if unmet := [side for side in asked.side if not any(side in goal.sides for goal in goals)]:
        parser.error(f"no goal has a side {unmet[0]}")
    settings = nested(dict(asked.set))
    return Plan(
        goals,
        asked.pairs,
        asked.scale,
        asked.out,
        asked.scratch,
        sizes,
        settings,
        asked.side,
        asked.more,
        asked.list_only,
    )


def nested(values: Mapping[str, str]) -> dict[str, Any]:
    """`a.b` to values as they stand in a configuration; whole numbers become numbers."""
    found: dict[str, Any] = {}
    for path, value in values.items():
        *blocks, name = path.split(".")
        place = found
        for block in blocks:
            place = place.setdefault(block, {})
        place[name] = int(value) if value.isdigit() else value
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Run goals, each with its sides in turn on fresh parts; write JSON, a page with plots, a table.",
    )
    add = parser.add_argument
    add("goals", nargs="*", metavar="goal", help="all where none is named")
    add("--list", dest="list_only", action="store_true", help="name the goals")
    add("--pairs", type=int, default=5, help="how often every side runs; 0 only makes the report anew")
    add("--more", action="store_true", help="add these pairs to those that are in --out, of this commit and machine")
    add("--scale", type=Scale, choices=list(Scale), default=Scale.SMALL, help="`full` is what the limits are about")
    add("--out", type=Path, default=OUT, help="where results and report are written")
    add("--scratch", type=Path, help="where to work; a folder below it is made, and removed at the end")
    add("--size", type=_pair, action="append", default=[], metavar="NAME=NUMBER", help="a parameter of the goals")
    add("--side", action="append", default=[], help="run this side only, while working on it; not a comparison")
    add("--set", type=_pair, action="append", default=[], metavar="PATH=VALUE", help="of cdc.yaml: spark.master=...")
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not name=value")
    return name, value
