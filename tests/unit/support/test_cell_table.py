"""The table of cells: hundreds, each once, each with a fault that can be done; what is left out has a reason."""

import json
from collections import Counter
from pathlib import Path

from tests.cells.cell import KINDS, PHASES, POINT_KINDS, PROCESS_KINDS, cross, find_reason, list_cells
from tests.cells.faults import FAULTS
from tests.cells.phases import ACTIONS
from tests.cells.result import Result, read_results, to_table


def test_there_are_hundreds_and_no_two_alike() -> None:
    cells = list_cells()
    assert len(cells) >= 300
    assert set(Counter(cells).values()) == {1}
    assert {cell.kind for cell in cells} == {*KINDS}
    assert {cell.phase for cell in cells} == {*PHASES}


def test_what_is_left_out_has_a_reason() -> None:
    left_out = [cell for cell in cross() if find_reason(cell)]
    assert len(left_out) + len(list_cells()) == len([*cross()])


def test_every_kind_and_phase_can_be_done() -> None:
    assert {*KINDS} == {*POINT_KINDS, *PROCESS_KINDS, *FAULTS}
    assert {*PHASES} == {*ACTIONS, "bootstrap", "recapture"}


def test_results_are_read_back_from_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    assert read_results(file) == read_results(None) == []
    results = [Result(cell, "equal", 1.0, 2.0, "told", "", {"lake": 1.0}) for cell in list_cells()[:3]]
    file.write_text("".join(json.dumps(each.as_json()) + "\n" for each in results))
    assert read_results(file) == results


def test_results_are_told_by_kind() -> None:
    raised, killed = (next(cell for cell in list_cells() if cell.kind == kind) for kind in ("raise", "kill"))
    results = [Result(raised, "equal", 1.0), Result(raised, "told, then equal", 3.0), Result(killed, "differs", 9.0)]
    assert to_table(results).splitlines()[2:] == [
        "| raise | 2 | 1 | 1 | 0 | 2.0 | 2.9 |",
        "| kill | 1 | 0 | 0 | 1 | 0.0 | 0.0 |",
        "| all | 3 | 1 | 1 | 1 | 2.0 | 2.9 |",
    ]
