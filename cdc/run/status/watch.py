"""Looks at a pipeline once an interval, in one thread, and keeps the newest status document for whoever shows it.

A look asks each part in a lane of its own, waits for answers until the interval is over at most, and makes one document
of what is known then. It takes no lease and waits for no lock; what it has read of log and lake it does not read again.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from msgspec.structs import replace

from cdc.core.containment import LOG
from cdc.core.waiting import Deadline
from cdc.run.pipeline import Pipeline
from cdc.run.status.asking.all_questions import Questions
from cdc.run.status.asking.paces import EVERY_SECONDS, Paces
from cdc.run.status.document import Document
from cdc.run.status.judging.composition import Composition
from cdc.run.status.judging.events import add_events
from cdc.run.status.judging.freshness import mark_stale
from cdc.run.status.judging.measures import Measures
from cdc.run.status.judging.rates import Past
from cdc.run.status.judging.series import add_points
from cdc.views.statement.final_windows import list_read_tables


class StatusWatch:
    """The status of one pipeline, kept up by one thread from `start` to `stop`.

    `previous`: the last document of an earlier process, of which times since when are kept. `file`: the configuration,
    to say whether it equals what runs. Any thread may ask for the document, wait for a newer one, or be told of each.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        every_seconds: float = EVERY_SECONDS,
        paces: Paces | None = None,
        previous: Document | None = None,
        file: Path | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._every = every_seconds
        self._questions = Questions(pipeline, paces or Paces.of(pipeline, every_seconds), file)
        self._past = Past()
        self._reads = {
            str(view.name): frozenset(map(str, list_read_tables(view))) for view in pipeline.settings.view_definitions
        }
        self._previous = previous
        self._document: Document | None = None
        self._changed = threading.Condition()
        self._listeners: list[Callable[[Document], None]] = []
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more; returns without waiting for a part that hangs."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(2 * self._every)
        self._questions.close()
        with self._changed:
            self._changed.notify_all()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def seq(self) -> int:
        """The number of the newest document; 0 before the first."""
        document = self._document
        return document.seq if document else 0

    def document(self) -> Document | None:
        """The newest document; None before the first. One that is too old says so: all in it is not known."""
        document = self._document
        return mark_stale(document, time.time()) if document else None

    def wait_newer(self, than: int, seconds: float) -> Document | None:
        """Wait for a document with a number above `than`; None when none comes in time, or the watch has stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self.seq > than or self._stopping.is_set(), seconds)
        return self.document() if self.seq > than else None

    def subscribe(self, tell: Callable[[Document], None]) -> Callable[[], None]:
        """Have `tell` called with each new document, in the watch's thread; returns what ends that."""
        self._listeners.append(tell)
        return partial(self._unsubscribe, tell)

    def _unsubscribe(self, tell: Callable[[Document], None]) -> None:
        with suppress(ValueError):
            self._listeners.remove(tell)

    def _run(self) -> None:
        while not self._stopping.is_set():
            deadline = Deadline(self._every)
            try:
                self._publish(self.look(deadline))
            except Exception as error:  # noqa: BLE001 - the last document stays, and says by its age that it is the last
                LOG.error("status: %s", error, exc_info=error)
            self._stopping.wait(deadline.seconds_left)

    def _publish(self, document: Document) -> None:
        with self._changed:
            self._document = document
            self._changed.notify_all()
        for tell in tuple(self._listeners):
            tell(document)

    def look(self, deadline: Deadline) -> Document:
        """Ask everything that is due, wait for answers until `deadline`, and make the next document."""
        began = time.monotonic()
        self._questions.ask_all(deadline)
        return self._compose(began)

    def look_once(self) -> Document:
        """Ask everything, wait for each answer as long as its limit says, and make a document."""
        began = time.monotonic()
        self._questions.ask_all(None)
        return self._compose(began)

    def _compose(self, began: float) -> Document:
        facts = self._questions.facts(time.time())
        measures = Measures(self._pipeline.settings, facts, self._past)
        composition = Composition(self._pipeline.settings, facts, measures, self._reads, self._every)
        before = self._document or self._previous
        seq = (before.seq if before else 0) + 1
        made = composition.compose(before, seq, round(1000 * (time.monotonic() - began)))
        return replace(made, events=add_events(made, before), series=add_points(made, before))


def look_once(pipeline: Pipeline, file: Path | None = None, *, exact: bool = False) -> Document:
    """One look at everything, for a verb: counts rows, too, with `exact` also where that takes long.

    If the newest commit in the log is older than heartbeats take, it writes one, and looks for some seconds whether it
    arrives. What does not answer is a problem of the document, and ends nothing.
    """
    watch = StatusWatch(pipeline, paces=Paces.of_one_look(exact=exact), file=file)
    try:
        return watch.look_once()
    finally:
        watch.stop()
