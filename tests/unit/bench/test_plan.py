"""The command line of the bench."""

import pytest

from tests.bench.goal import Scale
from tests.bench.goals import GOALS
from tests.bench.plan import nested, planned


def test_all_goals_run_but_those_that_have_to_be_named() -> None:
    names = [goal.name for goal in planned([]).goals]
    assert "lag-1" in names
    assert "ci" not in names
    assert [goal.name for goal in planned(["ci"]).goals] == ["ci"]


def test_an_unknown_goal_or_size_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["lagg"], ["lag-1", "--size", "tables=3"], ["--set", "spark.master"]):
        with pytest.raises(SystemExit):
            planned(arguments)
    assert "there is no goal lagg" in capsys.readouterr().err


def test_a_size_is_changed_where_a_goal_has_it() -> None:
    plan = planned(["lag-1", "demo", "--size", "rows=7"])
    assert [plan.sizes_of(goal).get("rows") for goal in plan.goals] == [7, None]


def test_settings_are_nested_as_in_the_file() -> None:
    found = nested({"followers.lake.batch_changes": "10", "followers.lake.kind": "delta", "version": "1"})
    assert found == {"followers": {"lake": {"batch_changes": 10, "kind": "delta"}}, "version": 1}


@pytest.mark.parametrize("name", GOALS)
def test_limits_ratios_and_sizes_name_what_is_there(name: str) -> None:
    found = GOALS[name]
    measures = {measure.name for measure in found.measures}
    assert {limit.measure for limit in found.limits} <= measures
    assert {limit.side for limit in found.limits} <= set(found.sides)
    assert {limit.per for limit in found.limits if limit.per} <= set(found.sides)
    assert {side for pair in found.divided for side in pair} <= set(found.sides)
    assert found.sizes[Scale.SMALL].keys() == found.sizes[Scale.FULL].keys()
