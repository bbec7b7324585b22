"""The check of cuts: right for every prefix of what was committed, wrong for everything else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.torture.checks.prefixes import CutSighting, Journal, find_hole


@st.composite
def commits(draw: st.DrawFn) -> tuple[dict[int, Journal], list[dict[int, int]]]:
    """Journals of three writers, and what each had after every commit, in the order of commits."""
    journals, busy = {n: Journal() for n in range(3)}, dict.fromkeys(range(3), 0.0)
    states = [dict.fromkeys(range(3), 0)]
    for now, (writer, entries) in enumerate(draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)))), 1):
        # who has not been answered yet begins nothing
        if busy[writer] < now:
            began, busy[writer] = draw(st.floats(busy[writer], now)), now + draw(st.floats(0, 3))
            last = journals[writer].last + entries
            journals[writer].append(last, began, busy[writer])
            states.append({**states[-1], writer: last})
    return journals, states


def see(state: dict[int, int], asked: float | None = None) -> CutSighting:
    return CutSighting("a cut", asked, {writer: (last, last) for writer, last in state.items() if last})


@given(commits(), st.data())
def test_prefixes_in_order_are_right(
    found: tuple[dict[int, Journal], list[dict[int, int]]], data: st.DataObject
) -> None:
    journals, states = found
    places = sorted(data.draw(st.lists(st.integers(0, len(states) - 1), max_size=5)))
    assert find_hole(journals, [see(states[place]) for place in places]) is None


def two_writers() -> dict[int, Journal]:
    """The first commits 2 entries, then 1; the second one behind both."""
    first, second = Journal(), Journal()
    first.append(2, 0.0, 1.0)
    first.append(3, 2.0, 3.0)
    second.append(1, 4.0, 5.0)
    return {0: first, 1: second}


@pytest.mark.parametrize(
    ("entries", "asked", "told"),
    [
        ({0: (1, 2)}, None, "has 1 entries, and the last is 2"),
        ({0: (1, 1)}, None, "in the middle of a transaction"),
        ({0: (2, 2), 1: (1, 1)}, None, "a later one is there"),
        ({0: (2, 2)}, 3.5, "its reader had waited for it"),
        ({}, 1.5, "its reader had waited for it"),
    ],
    ids=["a hole", "torn", "out of order", "not waited for", "nothing"],
)
def test_holes_are_told(entries: dict[int, tuple[int, int]], asked: float | None, told: str) -> None:
    assert told in (find_hole(two_writers(), [CutSighting("a cut", asked, entries)]) or "")


def test_reader_who_goes_back_is_told() -> None:
    later = see({0: 3})
    assert "after 3 was seen" in (find_hole(two_writers(), [later, replace(later, entries={0: (2, 2)})]) or "")


def test_commit_that_was_never_acknowledged_may_be_there() -> None:
    assert find_hole(two_writers(), [see({0: 4, 1: 1})]) is None
