"""What the labs on derived data plan and count, on values."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cdc.lab.decoding import LoggedChange
from cdc.lab.derived import cqrs, replay, shop, unbundled
from cdc.lab.derived.cqrs import OwnRead
from cdc.lab.derived.event_sourcing import count_gone, count_rows_beyond
from cdc.lab.derived.replay import COUNTRIES, OrderEvent
from cdc.lab.derived.shop import Act, Deed, Shop, count_beyond, fold
from cdc.lab.messages import Message, encode

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
def test_the_bug_makes_every_country_wrong(seed: int) -> None:
    events = replay.plan_orders(Random(seed), replay.LAST_WEEK)
    buggy = {c: sum(replay.add_gross(event) for event in events if event.country == c) for c in COUNTRIES}
    wrong, over = replay.count_wrong(buggy, replay.add_up(events))
    assert wrong == len(COUNTRIES)
    assert over == sum(event.cents for event in events if event.is_cancelled)


def test_a_cancelled_order_is_taken_back() -> None:
    order, other = OrderEvent("AT", 500), OrderEvent("BR", 70)
    cancelled = OrderEvent("AT", 500, is_cancelled=True)
    assert replay.add_up([order, other, cancelled]) == {**dict.fromkeys(COUNTRIES, 0), "BR": 70}
    assert replay.count_wrong({**dict.fromkeys(COUNTRIES, 0), "AT": 5}, dict.fromkeys(COUNTRIES, 0)) == (1, 5)


@given(SEEDS)
def test_who_validates_in_order_sells_what_is_there(seed: int) -> None:
    commands = shop.plan_commands(Random(seed))
    # all of them believed: more than there is, of each item
    assert count_beyond(commands) == shop.ITEMS * (shop.CARTS - shop.STOCK)
    state, events = Shop(), list[Act]()
    for command in commands:
        if state.allows(command):
            state.take_in(command)
            events.append(command)
    assert count_beyond(events) == 0
    assert {event.deed for event in events} == {Deed.PUT, Deed.TAKE_OUT, Deed.EXPIRE, Deed.ORDER}


@given(SEEDS, st.floats(0, 1))
def test_a_snapshot_shortens_the_fold_and_undoing_gives_back(seed: int, share: float) -> None:
    events = shop.plan_commands(Random(seed))
    at = int(len(events) * share)
    snapshot = Message(0, 0, None, encode(fold(events[:at])).decode()).decode(Shop)
    assert fold(events[at:], snapshot) == fold(events)
    # the snapshot is as it was
    assert snapshot == fold(events[:at])
    assert count_beyond(events[at:], snapshot) <= count_beyond(events)
    order = Act(Deed.ORDER, 1, 2)
    before = fold([Act(Deed.PUT, 1, 2)])
    after = fold([Act(Deed.PUT, 1, 2), order, Act(Deed.UNDO, 1, 2)])
    assert (before.left[2], after.left[2]) == (shop.STOCK - 1, shop.STOCK)


def test_rows_that_went_without_an_order_are_counted() -> None:
    changes = [
        LoggedChange("public.carts", "DELETE", {}),
        LoggedChange("public.carts", "DELETE", {}),
        LoggedChange("public.orders", "INSERT", {}),
        LoggedChange("public.carts", "INSERT", {}),
        LoggedChange("public.stock", "UPDATE", {"item": "1", "amount": "-2"}),
        LoggedChange("public.stock", "UPDATE", {"item": "1", "amount": "3"}),
    ]
    assert count_gone(changes) == 1
    assert count_rows_beyond(changes) == 2


@given(SEEDS)
def test_an_order_says_what_its_country_has_with_it(seed: int) -> None:
    orders, held_up = cqrs.plan_orders(Random(seed))
    assert len(held_up) == cqrs.HELD_UP
    for number, order in enumerate(orders):
        assert order.revenue == sum(each.cents for each in orders[: number + 1] if each.country == order.country)


def test_misses_and_the_lag_are_counted() -> None:
    reads = [OwnRead("m", 0, 10, 11, True, 40, 41, False), OwnRead("m", 0, 10, 30, False, 20, 31, False)]
    assert cqrs.count_missed(reads) == (2, 1, 0)
    assert cqrs.measure_lag(reads) == 20


def test_answers_are_compared_with_that_of_the_database() -> None:
    whole, part = {"AT": 5, "BR": 7}, {"AT": 5}
    stores = ("Postgres", *unbundled.FOLLOWERS)
    behind = {"Postgres": 0.0, "lake": 30.0, "view": 40.0, "index": 90.0}
    once = dict(zip(stores, (whole, part, {}, whole), strict=True))
    day = unbundled.DayAnswers(once, dict.fromkeys(stores, whole), behind, (True, False))
    assert unbundled.count_differences([day, day]) == [
        ("lake with Postgres", 2, 2, 0, 30),
        ("view with Postgres", 2, 2, 0, 40),
        ("index with Postgres", 2, 0, 0, 90),
        ("lake with view, at one cut", 2, 2, 0, "-"),
    ]
    assert unbundled.count_answers([day.afterwards, day.at_once]) == 3
    assert unbundled.count_answers([day.afterwards]) == 1
