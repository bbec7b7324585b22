"""A seed plans one schedule, which a file keeps; a failing one is made smaller."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.core.errors import ConfigurationError
from cdc.torture.faults.registry import CAUSES
from cdc.torture.schedule import KINDS, WRITERS, FaultSchedule, group, plan
from cdc.torture.shrink import shrink
from cdc.torture.writers.registry import make_writers


def test_seed_plans_the_same_everywhere() -> None:
    planned = plan(7, 1, 30)
    assert planned == plan(7, 1, 30) != plan(8, 1, 30)
    assert [(str(each), each.after, each.lasts, each.number) for each in planned.faults] == EXPECTED


def test_longer_run_begins_alike() -> None:
    assert plan(7, 9, 30).faults[:3] == plan(7, 1, 30).faults


def test_every_kind_and_writer_is_known() -> None:
    assert CAUSES.keys() == KINDS.keys()
    assert {each.kind for seed in range(40) for each in plan(seed, 5, 30).faults} == set(KINDS)
    assert {each.name.split("-")[0] for each in make_writers(plan(1, 1, 30))} == set(WRITERS)


def test_file_keeps_a_schedule(tmp_path: Path) -> None:
    plan(7, 2, 30).write(tmp_path / "it.json")
    assert FaultSchedule.read(tmp_path / "it.json") == plan(7, 2, 30)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("kill", "kiln", "there is no fault kiln"),
        ('"bank"', '"banks"', "there is no writer banks"),
        ('"kafka"', '"kafkas"', "does not hit kafkas"),
        ("{", "", "is no schedule"),
    ],
)
def test_bad_file_is_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    file = tmp_path / "it.json"
    plan(3, 2, 30).write(file)
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(ConfigurationError, match=told):
        FaultSchedule.read(file)


def test_faults_at_once_are_one_group() -> None:
    faults = plan(7, 30, 30).faults
    groups = group(faults)
    assert [each for one in groups for each in one] == list(faults)
    assert all(not one[0].together and all(each.together for each in one[1:]) for one in groups)
    assert any(len(one) > 1 for one in groups)


@given(st.integers(1, 20).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=3))))
def test_smaller_is_as_small_as_the_cause(case: tuple[int, set[int]]) -> None:
    count, causes = case

    def fails(parts: Sequence[int]) -> bool:
        return causes <= set(parts)

    assert set(shrink(range(count), fails, lambda: True)) == causes


def test_search_ends_with_its_time() -> None:
    tries = list[int]()

    def fails(parts: Sequence[int]) -> bool:
        tries.append(len(parts))
        return 3 in parts

    found = shrink(range(16), fails, lambda: len(tries) < 2)
    assert tries == [8, 4]
    assert list(found) == [0, 1, 2, 3]


EXPECTED = [
    ("slow capture", 5.6, 4.3, 849242),
    ("kill connect", 1.8, 4.8, 392411),
    ("lose-state follow", 5.9, 7.0, 84355),
]
