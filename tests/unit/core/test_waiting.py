"""Waiting for a condition, with a limit."""

from itertools import count

from cdc.core.waiting import Deadline, wait_until


def test_a_condition_that_holds_is_asked_once() -> None:
    asked = count()
    assert wait_until(lambda: next(asked) >= 0, 0)
    assert next(asked) == 1


def test_a_condition_that_comes_to_hold_ends_the_wait() -> None:
    asked = count()
    assert wait_until(lambda: next(asked) == 2, 60, every=0)


def test_a_condition_that_never_holds_ends_at_the_limit() -> None:
    assert not wait_until(lambda: False, 0.01, every=0)


def test_a_deadline_counts_down_to_zero() -> None:
    assert 59 < Deadline(60).seconds_left <= 60
    assert Deadline(0).seconds_left == 0
    assert (Deadline(60).is_past, Deadline(0).is_past, Deadline(float("inf")).is_past) == (False, True, False)
