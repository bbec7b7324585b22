"""The check of registers agrees with a search of every order, on random histories."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.torture.checks.registers import FOREVER, Operation, find_violation

INITIAL = 0


def is_linearizable(operations: Sequence[Operation], value: object = INITIAL) -> bool:
    """Wing and Gong, *Testing and Verifying Concurrent Objects* (1993): try every order that keeps time."""
    # a write that nobody has been told of may not have been done
    if all(each.ended == FOREVER for each in operations):
        return True
    first = min(each.ended for each in operations)
    for place, each in enumerate(operations):
        if each.began <= first and (each.is_write or each.value == value):
            rest = [*operations[:place], *operations[place + 1 :]]
            if is_linearizable(rest, each.value if each.is_write else value):
                return True
    return False


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """Writes of different values, some with no answer, and reads of them or of what was there at first."""
    writes = draw(st.integers(0, 4))
    moments = st.tuples(st.integers(0, 12), st.integers(0, 6))
    history = list[Operation]()
    for value in range(1, writes + 1):
        began, lasted = draw(moments)
        ended = draw(st.sampled_from((began + lasted, began + lasted, FOREVER)))
        history.append(Operation("x", value, True, began, ended))
    for _ in range(draw(st.integers(0, 5))):
        began, lasted = draw(moments)
        history.append(Operation("x", draw(st.integers(0, writes)), False, began, began + lasted))
    return history


@given(histories())
def test_agrees_with_a_search(history: list[Operation]) -> None:
    assert (find_violation(history, INITIAL) is None) == is_linearizable(history)


def write(value: int, began: float, ended: float, register: str = "x") -> Operation:
    return Operation(register, value, True, began, ended, "w")


def read(value: int, began: float, ended: float, register: str = "x") -> Operation:
    return Operation(register, value, False, began, ended, "r")


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ([write(1, 0, 1), read(0, 2, 3)], "r read 0"),
        ([write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)], "r read 1"),
        ([write(1, 0, 9), read(1, 2, 3), read(0, 4, 5)], "while another was"),
        ([read(1, 0, 1), write(1, 2, 3)], "before w wrote 1"),
        ([read(7, 0, 1)], "nobody wrote"),
        ([write(1, 0, FOREVER), read(1, 2, 3), read(0, 4, 5)], "while another was"),
    ],
    ids=["not seen", "overwritten", "back", "early", "from nowhere", "seen, though never acknowledged"],
)
def test_violations_are_told(history: list[Operation], told: str) -> None:
    assert told in (find_violation(history, INITIAL) or "")


def test_other_registers_do_not_matter() -> None:
    assert find_violation([write(1, 0, 1, "x"), read(0, 2, 3, "y")], INITIAL) is None


def test_value_written_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        find_violation([write(1, 0, 1), write(1, 2, 3)], INITIAL)
