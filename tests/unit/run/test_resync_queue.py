"""The order of new copies: a failed table pauses, and holds up no other."""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.run.copy.resync_queue import ResyncQueue, ResyncResult, backoff_seconds
from tests.support.waiting import until

UNFIT, SOUND = TableName("public", "unfit"), TableName("public", "sound")
INFINITE = PreconditionError("public.unfit: infinity", "update it")


@contextmanager
def running(queue: ResyncQueue, copy: Callable[[Collection[TableName]], ResyncResult]) -> Iterator[None]:
    done = threading.Event()
    thread = threading.Thread(target=queue.run, args=(copy, lambda text: None, done))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_table_is_copied_again_while_another_pauses() -> None:
    queue, tries = ResyncQueue(), list[Collection[TableName]]()

    def copy(names: Collection[TableName]) -> ResyncResult:
        tries.append(names)
        return ResyncResult(frozenset(names) - {UNFIT}, frozenset(), INFINITE if UNFIT in names else None)

    queue.request([UNFIT, SOUND])
    with running(queue, copy):
        until(lambda: queue.list_copied() == {SOUND}, "the sound one is copied")
        queue.mark_joined([SOUND], queue.joined_lsn)
        assert not queue.is_pending
        queue.request([SOUND])
        until(lambda: len(tries) > 1, "it is copied again")
    assert [set(names) for names in tries[:2]] == [{UNFIT, SOUND}, {SOUND}]


def test_request_during_a_try_causes_another_copy() -> None:
    queue, tries = ResyncQueue(), list[Collection[TableName]]()

    def copy(names: Collection[TableName]) -> ResyncResult:
        tries.append(names)
        if len(tries) == 1:
            queue.request([SOUND])
        return ResyncResult(frozenset(names), frozenset(), None)

    queue.request([SOUND])
    with running(queue, copy):
        until(lambda: len(tries) > 1, "it is copied again")
    assert [set(names) for names in tries[:2]] == [{SOUND}, {SOUND}]


def test_requests_elsewhere_are_never_pending() -> None:
    queue = ResyncQueue(is_here=False)
    queue.request([SOUND])
    assert not queue.is_pending


def test_pause_grows_with_the_duration_of_the_try() -> None:
    assert backoff_seconds(0.5, alone=True) == 10
    assert backoff_seconds(60, alone=True) == 600
    assert backoff_seconds(60, alone=False) == 10
