"""A view has a bug in its fold: the mended code alone mends nothing that is added up already; the log does.

A second consumer group builds a new view from the beginning of the log, while the old one goes on answering. When the
new one has caught up, it answers instead, and the old one ends.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import psycopg
from psycopg import sql

from cdc.lab.book import FIRST, FIRST_FUTURE, SECOND, SECOND_PHILOSOPHY, Passage
from cdc.lab.derived.revenue import COUNTRIES, OrderEvent, RevenueView, add_gross, add_net, add_up, plan_orders
from cdc.lab.figures.curves import Curve, Curves
from cdc.lab.lesson import Findings, Lab
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

LAST_WEEK: Final = 400
TODAY: Final = 160
AT_ONCE: Final = 8
"""So many events come in, while each view folds up to a batch of them."""
INCOMPLETE: Final = "incomplete"
_ANSWER: Final = sql.SQL("CREATE OR REPLACE VIEW revenue AS SELECT {} AS view, * FROM {}")


class Replay:
    """The log, and the views on it while time goes on: events come in, views fold, somebody asks."""

    def __init__(self, place: Workplace, session: "psycopg.Connection[Any]", topic: str) -> None:
        self._producer, self._session, self._topic = place.producer(), session, topic
        self.written = 0
        self.answers: list[str] = []
        self.positions: dict[str, list[tuple[float, float]]] = {"log": []}

    def produce(self, events: Sequence[OrderEvent]) -> None:
        for event in events:
            self._producer.send(self._topic, key=event.country, value=event.as_text())
        self._producer.flush()
        self.written += len(events)

    def answer_from(self, view: RevenueView) -> None:
        """Let who asks be answered from this view: at once, and by one of the two at any time."""
        self._session.execute(_ANSWER.format(view.table, sql.Identifier(view.table)))

    def go_on(self, views: Sequence[RevenueView], events: Sequence[OrderEvent] = ()) -> None:
        """Let events come in, each view fold what is next for it, and somebody ask for all countries."""
        self.produce(events)
        for view in views:
            view.fold_next(self.written)
        answers = self._session.execute("SELECT view FROM revenue").fetchall()
        self.answers += [answers[0][0]] if len(answers) == len(COUNTRIES) else [INCOMPLETE]
        now = time.monotonic()
        for name, position in (("log", self.written), *((view.table, view.position) for view in views)):
            self.positions.setdefault(name, []).append((now, position))

    def draw(self) -> Curves:
        """Draw how far the log goes, and how far each of the two views that answer has read it."""
        names = {"log": "the log", "old": "the old view", "new": "the new view"}
        began, _ = self.positions["log"][0]
        curves = [
            Curve(name, tuple((at - began, position) for at, position in self.positions[key]))
            for key, name in names.items()
        ]
        title = "A new view reads the log from its beginning, until it has caught up; then the old one ends"
        return Curves(title, tuple(curves), "s", "events")


def run(place: Workplace) -> Findings:
    events = plan_orders(place.random, LAST_WEEK + TODAY)
    session = place.keep(psycopg.connect(place.database("replay"), autocommit=True))
    topic = place.topic("orders")
    replay = Replay(place, session, topic)
    replay.produce(events[:LAST_WEEK])

    def open_view(name: str, add: Callable[[OrderEvent], int]) -> RevenueView:
        return RevenueView(session, place.consumer(group_id=place.group(name)), topic, name, add)

    old = open_view("old", add_gross)
    replay.answer_from(old)
    while old.position < LAST_WEEK:
        old.fold_next(LAST_WEEK)
    place.say("somebody sees that cancelled orders count; the code is mended, and events still come in")
    mended, new = open_view("mended", add_net), open_view("new", add_net)
    mended.begin_as(old)
    today = iter(events[LAST_WEEK:])
    while new.position < old.position:
        replay.go_on((old, mended, new), list(islice(today, AT_ONCE)))
    replay.answer_from(new)
    while batch := list(islice(today, AT_ONCE)):
        replay.go_on((mended, new), batch)
    while any(view.position < len(events) for view in (mended, new)):
        replay.go_on((mended, new))
    rows = [
        (
            name,
            view.folded,
            *count_wrong(view.read(), add_up(events[: view.position])),
            replay.answers.count(view.table),
        )
        for name, view in (("the old view", old), ("its sums, code mended", mended), ("a new view, from the log", new))
    ]
    (_, _, wrong, _, answered), (_, _, still_wrong, *_), (_, folded, none_wrong, *_) = rows
    return Findings(
        columns=("view", "events read", "countries wrong", "cents too much", "questions answered"),
        rows=tuple(rows),
        sentence=f"The bug made {wrong} of {len(COUNTRIES)} countries wrong, mended code leaves {still_wrong} so;"
        f" a new view read all {folded} events from the log, while the old one answered {answered} questions,"
        f" and has {none_wrong} wrong; {replay.answers.count(INCOMPLETE)} questions got no whole answer.",
        figure=replay.draw(),
    )


def count_wrong(found: Mapping[str, int], truth: Mapping[str, int]) -> tuple[int, int]:
    """Countries with another revenue than the true one, and how much it is too much in all."""
    over = [found[country] - truth[country] for country in COUNTRIES]
    return sum(map(bool, over)), sum(over)


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Partitioned Logs", "Replaying old messages"),
        Passage(FIRST, "State, Streams, and Immutability", "Deriving several views from the same event log"),
        Passage(FIRST_FUTURE, "Data Integration", "Batch and Stream Processing"),
        Passage(SECOND, "Log-Based Message Brokers", "Replaying old messages"),
        Passage(SECOND_PHILOSOPHY, "Data Integration", "Batch and Stream Processing"),
    ),
    files=("cdc/run/copy/resync.py", "cdc/views/keeper.py", "sinks/search/follower.py"),
    parts=(Service.KAFKA, Service.POSTGRES),
    run=run,
)
