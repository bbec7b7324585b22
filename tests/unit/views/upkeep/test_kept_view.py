"""What a keeper remembers of a view: how long it rests between two computations of the whole."""

import pytest

from cdc.views.statement.final_windows import list_read_tables
from cdc.views.upkeep.kept_view import KeptView
from tests.support.views.sales import COUNTS


@pytest.mark.parametrize(
    ("whole_seconds", "took", "pause"),
    [
        pytest.param(None, 0.01, 1.0, id="a quick one a second later"),
        pytest.param(None, 0.7, 7.0, id="one that takes longer less often"),
        pytest.param(None, 60.0, 30.0, id="one of minutes half a minute later"),
        pytest.param(45.0, 0.01, 45.0, id="as often as is set"),
        pytest.param(0.0, 5.0, 0.0, id="at every cut"),
    ],
)
def test_a_whole_view_rests_as_long_as_it_costs(whole_seconds: float | None, took: float, pause: float) -> None:
    view = KeptView(COUNTS, list_read_tables(COUNTS), whole_seconds, seconds=took)
    view.was_computed()
    assert view.whole_at.seconds_left == pytest.approx(pause, abs=0.5)
