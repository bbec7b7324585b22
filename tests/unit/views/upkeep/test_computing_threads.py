"""Computations beside each other: how many at once, and that whoever waits hears of each end."""

import threading
from collections.abc import Iterator

import pytest

from cdc.views.upkeep.computing_threads import LARGE_AT_ONCE, THREADS, ComputingThreads
from tests.support.waiting import LIMIT_SECONDS, until


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()


def wait_for(gate: threading.Event) -> bool:
    return gate.wait(LIMIT_SECONDS)


def test_small_tables_wait_for_no_large_ones(gate: threading.Event) -> None:
    threads = ComputingThreads(None, lambda: None)
    for _ in range(LARGE_AT_ONCE):
        threads.start(lambda: wait_for(gate), is_large=True)
    assert not threads.has_room(is_large=True)
    for _ in range(THREADS - LARGE_AT_ONCE):
        assert threads.has_room(is_large=False)
        threads.start(lambda: wait_for(gate), is_large=False)
    assert not threads.has_room(is_large=False)
    gate.set()
    threads.close()
    assert threads.has_room(is_large=True)


def test_every_end_is_heard(gate: threading.Event) -> None:
    rings = list[str]()
    threads = ComputingThreads(None, lambda: rings.append("ring"))
    slow = threads.start(lambda: wait_for(gate), is_large=True)
    quick = threads.start(lambda: 7, is_large=False)
    threads.wait_for_any()
    assert quick.future.result().require() == 7
    assert not slow.future.done()
    gate.set()
    threads.wait_for_any()
    assert slow.future.result().require()
    # nobody computes: no end is to come
    threads.wait_for_any()
    until(lambda: rings == ["ring"] * 2, "each end rings")


def test_an_error_is_raised_by_whoever_takes_the_outcome() -> None:
    def fail() -> str:
        raise KeyError

    failed = ComputingThreads(None, lambda: None).start(fail, is_large=False).future.result()
    with pytest.raises(KeyError):
        failed.require()
    assert failed.seconds >= 0
