"""The race as values: which order ends apart, what a seed decides, and how the story is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.demo.race import story
from cdc.demo.race.clients import TimedWrite
from cdc.demo.race.schedule import FIGURE, ORDERS, Accident, Order, Store, is_diverging, plan_race
from cdc.demo.race.stores import find_differences

SEEDS = st.integers(0, 2**32)


def stores_after(order: Order) -> dict[Store, str]:
    """What both stores hold under one key when the writes happen in this order: the last one wins."""
    held: dict[Store, str] = {}
    for step in order:
        held[step.store] = "AB"[step.client - 1]
    return held


def test_there_are_six_orders_and_two_of_them_end_apart() -> None:
    assert len(set(ORDERS)) == 6
    assert [order for order in ORDERS if is_diverging(order)] == [
        order for order in ORDERS if len(set(stores_after(order).values())) == 2
    ]
    assert sum(map(is_diverging, ORDERS)) == 2


def test_the_figure_ends_as_in_the_book() -> None:
    assert stores_after(FIGURE) == {Store.DATABASE: "B", Store.INDEX: "A"}


@given(SEEDS, st.integers(1, 300))
def test_a_seed_gives_one_schedule(seed: int, pairs: int) -> None:
    plan = plan_race(seed, pairs)
    assert plan == plan_race(seed, pairs)
    assert len(plan.pairs) == len(set(plan.pairs)) == pairs
    assert plan.forced[0].order == FIGURE
    assert len({pair.order for pair in plan.forced}) == len(plan.forced) == min(pairs, len(ORDERS))


@given(SEEDS, st.integers(1, 300))
def test_every_accident_happens_to_keys_of_its_own(seed: int, pairs: int) -> None:
    plan = plan_race(seed, pairs)
    assert {each.accident for each in plan.failing} == set(Accident)
    assert not {each.key for each in plan.failing} & set(plan.pairs)


def test_another_seed_gives_another_schedule() -> None:
    assert plan_race(1, 50) != plan_race(2, 50)


@given(st.dictionaries(st.text(), st.text()), st.dictionaries(st.text(), st.text()))
def test_what_is_missing_on_either_side_is_apart(table: dict[str, str], index: dict[str, str]) -> None:
    different = set(find_differences(table, index))
    assert different == {key for key in {*table, *index} if table.get(key) != index.get(key)}
    assert find_differences(table, table) == []


@pytest.mark.parametrize(("index", "ending"), [("A", "for the index A"), ("B", "Both stores say X is B")])
def test_the_timeline_says_what_was_read(index: str, ending: str) -> None:
    pair = plan_race(0, 1).forced[0]
    moments = [TimedWrite(0.001 * n, step, "AB"[step.client - 1], "B", index) for n, step in enumerate(FIGURE)]
    lines = story.format_timeline(pair, moments).splitlines()
    assert lines[0].split() == ["when", "who", "writes", "database", "has", "index", "has"]
    assert lines[4].split() == ["3.0", "ms", "client", "1", "X=A", "→", "index", "B", index]
    assert ending in lines[5]


def test_the_damage_is_counted_by_kind() -> None:
    plan = plan_race(0, 10)
    table = dict.fromkeys([*plan.pairs, *(each.key for each in plan.failing)], "A")
    index = {**table, "X": "B", "X7": "B", "Y1": "B"}
    told = story.describe_damage(plan, table, index, find_differences(table, index))
    assert "forced, one pair an order:  1 of 6 differ" in told
    assert "1 of 4 differ, such as X7: database A, index B" in told
    assert "1 of 2 differ, such as Y1: database A, index B" in told
