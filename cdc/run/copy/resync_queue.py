"""Tables to be copied again: the lake's stream asks for their copies, a thread makes them, the stream joins them."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

from cdc.core.errors import CdcError
from cdc.core.position import Lsn
from cdc.core.table import TableName
from cdc.core.text.lines import WarningLine
from cdc.run.background import run_in_background
from cdc.run.spark.errors import to_cdc_error

LAST_COPY_SECONDS = 60.0
"""How long the end of the process waits for a copy under way. A longer one is cut off; the next process makes it."""
RETRY_SECONDS = 10.0
"""Least pause before a failed copy is tried again: the table may be there again."""
BACKOFF_FACTOR = 10
"""The pause is this many times the duration of the failed try, which may have read a large table."""

CopyTables = Callable[[Collection[TableName]], "ResyncResult"]
"""Copies tables. Raises CdcError when none of them can be copied."""


@dataclass(frozen=True, slots=True)
class ResyncResult:
    """One try: the tables copied, those that no longer need a copy, and why others were not copied."""

    copied: frozenset[TableName]
    obsolete: frozenset[TableName]
    failure: CdcError | None


def backoff_seconds(took: float, *, alone: bool) -> float:
    """The pause before tables are tried again whose copy failed; `alone`: the try copied no other table.

    A try that copied others says little about the failed ones: the next one, without those, measures them.
    """
    return max(RETRY_SECONDS, BACKOFF_FACTOR * took) if alone else RETRY_SECONDS


@dataclass(frozen=True, slots=True)
class _Request:
    """A table to be copied. `is_refused`: its last copy failed, and nobody knows when it can be made.

    `is_new`: it was asked for since the present try began, which may have copied the table before the reason for it.
    """

    is_new: bool = True
    is_refused: bool = False
    paused_until: float = 0.0


class ResyncQueue:
    """The mailbox between the stream and the thread that copies; every method is safe in either.

    A table goes ``request`` → copied by ``run`` → ``list_copied`` → ``mark_joined``. One whose copy fails pauses
    (`backoff_seconds`) and holds up no other. With `is_here` False another process makes the copies: nobody here
    knows when, so requests are dropped and nothing is ever pending.
    """

    def __init__(self, *, is_here: bool = True) -> None:
        self.is_here = is_here
        self._changed = threading.Condition()
        self._requests: dict[TableName, _Request] = {}
        self._copied: set[TableName] = set()
        self.joined_lsn = Lsn(0)
        """A follower that has reached this LSN has all tables that were copied again."""

    @property
    def is_pending(self) -> bool:
        """Is there a table that can be copied, or was, and has not joined yet?"""
        with self._changed:
            return bool(self._copied) or not all(request.is_refused for request in self._requests.values())

    def request(self, names: Iterable[TableName]) -> None:
        """Ask for new copies of these tables."""
        with self._changed:
            for name in names if self.is_here else ():
                # keeps the pause of a failed copy: new tables are asked for with every look at the capture
                self._requests[name] = replace(self._requests.get(name, _Request()), is_new=True)
            self._changed.notify_all()

    def list_copied(self) -> Collection[TableName]:
        """The tables whose new copies wait to join."""
        with self._changed:
            return set(self._copied)

    def mark_joined(self, names: Collection[TableName], lsn: Lsn) -> None:
        """These tables are followed again, by every follower that has reached this LSN."""
        with self._changed:
            self._copied -= set(names)
            self.joined_lsn = Lsn(max(self.joined_lsn, lsn))

    def run(self, copy: CopyTables, say: Callable[[str], None], done: threading.Event) -> None:
        """Copy requested tables until `done` is set."""
        last_reason = ""
        while not done.is_set():
            with self._changed:
                now = time.monotonic()
                names = {name for name, request in self._requests.items() if request.paused_until <= now}
                if not names:
                    # not for ever: `done` does not notify, and a pause may end
                    self._changed.wait(0.2)
                    continue
                self._requests = {name: replace(request, is_new=False) for name, request in self._requests.items()}
            began = time.monotonic()
            result = _try_copy(copy, names)
            with self._changed:
                self._record(names, result, time.monotonic() - began)
            remaining = names - result.copied - result.obsolete
            # without the value: a table may hold several that no follower can, and each try may meet another one
            if remaining and result.failure and _reason_of(result.failure) != last_reason:
                last_reason = _reason_of(result.failure)
                say(WarningLine(f"not copied again yet: {result.failure}"))

    def _record(self, tried: Set[TableName], result: ResyncResult, seconds: float) -> None:
        done = result.copied | result.obsolete
        self._copied |= result.copied
        until = time.monotonic() + backoff_seconds(seconds, alone=not done & tried)
        for name in tried:
            request = self._requests[name]
            if name not in done:
                self._requests[name] = replace(request, is_refused=True, paused_until=until)
            elif request.is_new:
                self._requests[name] = _Request()
            else:
                del self._requests[name]


def run_resyncs(queue: ResyncQueue, copy: CopyTables, say: Callable[[str], None]) -> AbstractContextManager[None]:
    """Copy what the queue asks for, in a thread, as long as the context lasts."""
    return run_in_background(partial(queue.run, copy, say), "resync", LAST_COPY_SECONDS)


def _reason_of(failure: CdcError) -> str:
    return failure.what.partition(", where ")[0]


def _try_copy(copy: CopyTables, names: Collection[TableName]) -> ResyncResult:
    try:
        return copy(names)
    except CdcError as error:
        return ResyncResult(frozenset(), frozenset(), error)
    except Exception as error:  # noqa: BLE001 - a thread that ends in silence looks like a copy that takes long
        return ResyncResult(frozenset(), frozenset(), to_cdc_error("the copy", error))
