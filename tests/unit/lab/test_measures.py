"""What the labs count, on values: an idea that were false would be counted so."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.lab.logs import compaction, direct, groups, queue, retention
from cdc.lab.logs.backpressure import Flow
from cdc.lab.logs.compaction import Booking
from cdc.lab.logs.queue import Handling, WorkPlan

SEEDS = st.integers(0, 2**32)


def handlings(order: list[int], slow: int = 0) -> list[Handling]:
    """Messages done one after the other; the slow one until all others are."""
    return [Handling("w", number, at, 99.0 if number == slow else at + 0.5, True) for at, number in enumerate(order)]


@given(SEEDS)
def test_a_deadly_message_can_be_overtaken_within_its_key(seed: int) -> None:
    plan = queue.plan_work(Random(seed))
    assert plan == queue.plan_work(Random(seed))
    assert plan.keys[plan.deadly] == plan.keys[plan.deadly + 1]
    assert plan.deadly + 1 < plan.slow < queue.MESSAGES


def test_messages_in_order_are_not_overtaken() -> None:
    plan = WorkPlan(tuple(number % 2 for number in range(queue.MESSAGES)), 2, 8)
    order = list(range(queue.MESSAGES))
    assert queue.count_overtaken(plan, handlings(order, slow=-1)) == 0
    # another key may come before
    order[4], order[5] = 5, 4
    assert queue.count_overtaken(plan, handlings(order, slow=-1)) == 0
    order[4], order[5], order[6] = 6, 5, 4
    assert queue.count_overtaken(plan, handlings(order, slow=-1)) == 1


def test_a_message_is_held_up_that_begins_after_the_slow_one() -> None:
    plan = WorkPlan((0,) * queue.MESSAGES, 2, 8)
    order = list(range(queue.MESSAGES))
    assert queue.count_held_up(plan, handlings(order, slow=8)) == 0
    assert queue.count_held_up(plan, handlings(order, slow=-1)) == queue.MESSAGES - 9


def test_late_are_those_behind_a_later_one() -> None:
    assert groups.count_late([0, 1, 2, 3]) == 0
    assert groups.count_late([0, 3, 1, 2, 4]) == 2


@given(SEEDS)
def test_the_consumer_is_away_in_the_middle(seed: int) -> None:
    goes, returns = direct.plan_absence(Random(seed))
    assert 0 < goes < returns < direct.EVENTS


@given(SEEDS)
def test_the_newest_amounts_are_no_balances(seed: int) -> None:
    bookings = compaction.plan_bookings(Random(seed))
    assert {account for account, _ in bookings} == set(compaction.ACCOUNTS)
    assert "account 0" not in compaction.fold(bookings)
    assert compaction.fold(bookings) != compaction.take_newest(bookings)


def test_events_are_added_and_states_replaced() -> None:
    bookings: list[Booking] = [("a", 5), ("b", 1), ("a", 3), ("b", None)]
    assert compaction.fold(bookings) == {"a": 8}
    assert compaction.take_newest(bookings) == {"a": 3}


def test_a_flow_counts_what_waits_and_what_is_lost() -> None:
    flow = Flow((0.0, 1.0, 2.0, 3.0), (0.0, 1.0, 2.0, 3.0), {0: 2.5, 1: 3.5, 3: 4.0})
    assert (flow.lost, flow.most_waiting, flow.producer_seconds) == (1, 2, 3.0)
    assert flow.latency == pytest.approx(2.5)
    assert flow.waiting[-1] == (4.0, 0)


def test_what_is_handled_before_its_sending_returned_waited_no_time() -> None:
    assert Flow((0.0,), (1.0,), {0: 0.5}).waiting == [(1.0, 1), (1.0, 0)]


def test_events_that_are_gone_are_told_from_those_that_wait() -> None:
    every = set(range(retention.EVENTS))
    assert retention.count_read(every, 96) == (128, 128, 0, 0)
    # one that stands before a gap, and one that went on behind it
    assert retention.count_read({0, 1, 2, 3}, 96) == (128, 4, 92, 32)
    assert retention.count_read({0, 1, 2, 3, *range(96, 128)}, 96) == (128, 36, 92, 0)
