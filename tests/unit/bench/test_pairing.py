"""Sides run in turn; what differs or fails does not count, and the others go on."""

from pathlib import Path

import pytest

from tests.bench.pairing import interleaved, not_set_up
from tests.bench.record import NotComparableError, Record, Run, gone_on_with, read, recorded, verdicts, write
from tests.unit.bench.a_goal import ABOUT, GOAL, Told


def silent(text: str) -> None:
    pass


def ran(stage: Told, pairs: int) -> list[Run]:
    return [*interleaved(GOAL, GOAL.sides, stage, range(pairs), silent)]


def record_of(stage: Told, pairs: int) -> Record:
    return recorded(GOAL, "small", {"rows": 1}, ABOUT, ran(stage, pairs))


def test_the_sides_run_in_turn() -> None:
    stage = Told([1.0] * 6)
    runs = ran(stage, 3)
    assert stage.ran == ["ours", "stock"] * 3
    assert [run.pair for run in runs] == [0, 0, 1, 1, 2, 2]


def test_a_difference_voids_the_run() -> None:
    runs = ran(Told([1.0, 1.0], differing=["stock"]), 1)
    assert [run.trouble for run in runs] == [None, "void: orders differs in note"]


def test_a_failure_is_recorded_and_the_rest_goes_on() -> None:
    runs = ran(Told([1.0, -1.0, 1.0, 4.0]), 2)
    assert [run.trouble for run in runs] == [None, "failed: it fell over", None, None]


def test_what_does_not_count_is_in_no_value_and_no_ratio() -> None:
    record = record_of(Told([1.0, 2.0, 3.0, -1.0, 5.0, 20.0]), 3)
    assert record.values("ours", "time") == {0: 1.0, 1: 3.0, 2: 5.0}
    assert record.values("stock", "time") == {0: 2.0, 2: 20.0}
    ratio = record.ratio("time", "ours", "stock")
    assert ratio is not None
    assert (ratio.least, ratio.most, ratio.count) == (0.25, 0.5, 2)


def test_a_limit_is_kept_by_the_median() -> None:
    times, ratio, rate = verdicts(record_of(Told([1.0, 2.0, 1.9, 9.0, 5.0, 6.0]), 3))
    assert (times.met, ratio.met, rate.met) == (True, True, False)


def test_a_limit_without_a_run_is_neither_met_nor_missed() -> None:
    record = recorded(GOAL, "small", {}, ABOUT, not_set_up(GOAL, OSError("no disk")))
    assert [found.met for found in verdicts(record)] == [None, None, None]
    assert record.troubles[0] == "pair 1, ours: failed: could not be set up: no disk"


def test_a_record_is_read_back_as_it_was(tmp_path: Path) -> None:
    record = record_of(Told([1.0, -1.0, 3.0, 4.0]), 2)
    again = read(write(record, tmp_path))
    assert [run.values for run in again.runs] == [run.values for run in record.runs]
    assert again.runs_of("ours")[0].samples["time"] == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert verdicts(again) == verdicts(record)


def test_pairs_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    empty = recorded(GOAL, "small", {"rows": 1}, ABOUT, [])
    assert gone_on_with(empty, tmp_path) == empty
    write(record_of(Told([1.0, 2.0]), 1), tmp_path)
    before = gone_on_with(empty, tmp_path)
    more = interleaved(GOAL, GOAL.sides, Told([3.0, 4.0]), range(before.pairs, 2), silent)
    assert before.with_runs(more).values("stock", "time") == {0: 2.0, 1: 4.0}


def test_pairs_of_another_commit_are_not_added_to(tmp_path: Path) -> None:
    write(record_of(Told([1.0, 2.0]), 1), tmp_path)
    with pytest.raises(NotComparableError, match=r"told\.json is of another"):
        gone_on_with(recorded(GOAL, "small", {"rows": 1}, {**ABOUT, "commit": "other"}, []), tmp_path)
    busier = {**ABOUT, "when": "later", "machine": {**ABOUT["machine"], "load_before": [9.0]}}
    assert gone_on_with(recorded(GOAL, "small", {"rows": 1}, busier, []), tmp_path).pairs == 1
