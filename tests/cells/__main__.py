"""`python -m tests.cells`: runs cells of what may happen on real parts, and tells what came of each.

`--list` names them without a run. Exit code 1 when one does not end equal.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.local.servers.java import BRIEF
from tests.cells.cell import BY_PROCESS, KINDS, PHASES, VERB_PHASES, Cell, cross, find_reason, list_cells
from tests.cells.result import GOOD, Result, read_results, to_table

if TYPE_CHECKING:
    from tests.cells.runner import Runner


def main() -> int:
    """Run the cells that the command line selects."""
    # everything that was brought up is taken down on the way out
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan = _parse()
    before = read_results(plan.json)
    cells = _select(plan, but={each.cell for each in before if each.verdict in GOOD})
    if plan.list:
        for cell in cross():
            sys.stdout.write(f"{cell.id}{f': left out, {reason}' if (reason := find_reason(cell)) else ''}\n")
        return 0
    results = _run(cells, plan) if cells else []
    every = {each.cell: each for each in (*before, *results)}.values()
    sys.stdout.write(to_table([*every]) + "\n")
    return int(any(each.verdict not in GOOD for each in every))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cells", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the cells, and why others are left out")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--phase", action="append", choices=PHASES)
    parser.add_argument("--component", action="append")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many cells of each kind")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--together", type=int, default=1, metavar="N", help="compare everything after N cells only")
    parser.add_argument("--minutes", type=float, help="begin no cell after so many minutes")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="append a line for each cell; none that ended well in it is run again"
    )
    parser.add_argument("--evidence", type=Path, metavar="FOLDER", help="keep the log and the lake of what differs")
    return parser.parse_args()


def _select(plan: argparse.Namespace, but: Collection[Cell]) -> list[Cell]:
    asked = [
        cell
        for cell in list_cells()
        if (not plan.kind or cell.kind in plan.kind)
        and (not plan.phase or cell.phase in plan.phase)
        and (not plan.component or cell.component in plan.component)
    ]
    chance = random.Random(plan.seed)
    by_kind = [[cell for cell in asked if cell.kind == kind] for kind in KINDS]
    chosen = [cell for own in by_kind for cell in chance.sample(own, min(plan.sample or len(own), len(own)))]
    left = [cell for cell in chosen if cell not in but]
    # by what follows meanwhile: to start Spark takes longer than a cell
    return sorted(left, key=lambda cell: (cell.phase in VERB_PHASES, cell.kind not in BY_PROCESS))


def _run(cells: Sequence[Cell], plan: argparse.Namespace) -> list[Result]:
    from tests.cells.quick import quicken
    from tests.cells.runner import Runner
    from tests.cells.world import open_world

    os.environ["JDK_JAVA_OPTIONS"] = " ".join([os.environ.get("JDK_JAVA_OPTIONS", ""), *BRIEF]).strip()
    quicken()
    folder, results, began = Path(tempfile.mkdtemp(prefix="cdc-cells-")), list[Result](), time.monotonic()
    try:
        # closed on the way out of one that is interrupted, too: who follows may be a process
        with open_world(folder) as (world, make), closing(Runner(world, make, print, plan.evidence)) as runner:
            for start in range(0, len(cells), plan.together):
                if plan.minutes and time.monotonic() - began > 60 * plan.minutes:
                    break
                own = _run_together(runner, cells[start : start + plan.together])
                results += own
                _tell(own, plan.json)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return results


def _run_together(runner: "Runner", cells: Sequence[Cell]) -> list[Result]:
    """Run cells one after the other, with one proof at the end: what it finds may be of any of them."""
    results = [runner.run(cell, is_proved=cell == cells[-1]) for cell in cells]
    if results[-1].verdict not in ("differs", "stuck"):
        return results
    before = [
        replace(each, verdict="unproved", found="see the next one that differs") if each.verdict in GOOD else each
        for each in results[:-1]
    ]
    return [*before, results[-1]]


def _tell(results: Sequence[Result], file: Path | None) -> None:
    for result in results:
        sys.stderr.write(f"CELL {result}\n")
    if file:
        with file.open("a") as lines:
            lines.writelines(json.dumps(result.as_json()) + "\n" for result in results)


if __name__ == "__main__":
    sys.exit(main())
