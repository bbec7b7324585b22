"""The state of a table, from the facts that the lake stores."""

from itertools import product

import pytest

from cdc.core.position import Lsn
from cdc.core.table_state import Followed, Joining, Listed, Stopped, TableState, state_as_json, state_of

STOPPED = Stopped(Lsn(0x1A), "its schema has changed", recopy=True)


@pytest.mark.parametrize(("has_copy", "is_in_cut", "is_adopted"), [*product([True, False], repeat=3)])
def test_a_stop_decides_whatever_else_is_stored(has_copy: bool, is_in_cut: bool, is_adopted: bool) -> None:
    assert state_of(STOPPED, has_copy=has_copy, is_in_cut=is_in_cut, is_adopted=is_adopted) is STOPPED


@pytest.mark.parametrize(
    ("has_copy", "is_in_cut", "is_adopted", "state"),
    [
        pytest.param(False, False, False, Listed(), id="no copy"),
        pytest.param(False, True, False, Listed(), id="a cut has the lost copy"),
        pytest.param(True, False, False, Joining(), id="copied"),
        pytest.param(True, False, True, Followed(), id="replayed"),
        pytest.param(True, True, False, Followed(), id="in the last cut"),
    ],
)
def test_state_of_a_table_without_a_stop(has_copy: bool, is_in_cut: bool, is_adopted: bool, state: TableState) -> None:
    assert state_of(None, has_copy=has_copy, is_in_cut=is_in_cut, is_adopted=is_adopted) == state


def test_states_as_json() -> None:
    assert [state_as_json(state) for state in (Listed(), Joining(), Followed())] == [
        {"state": "listed"},
        {"state": "joining"},
        {"state": "followed"},
    ]
    reason = {"lsn": "0/1A", "reason": "its schema has changed", "recopy": True}
    assert state_as_json(STOPPED) == {"state": "stopped", **reason}
