"""A view has a bug in its fold: the mended code alone mends no sum that is there already; the log does.

A second consumer group builds a new view from the beginning of the log, while the old one goes on answering. When the
new one has caught up, it answers instead, and the old one ends.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Any, Final

from kafka import TopicPartition
from psycopg import sql

from cdc.lab.decoding import Session
from cdc.lab.figures.curves import Curves
from cdc.lab.lesson import Findings
from cdc.lab.messages import encode, take_exactly
from cdc.lab.waiting import read_clock
from cdc.lab.workplace import Workplace

LAST_WEEK: Final = 400
TODAY: Final = 160
AT_ONCE: Final = 8  # so many events come in, while each view folds up to a batch of them
INCOMPLETE: Final = "incomplete"
_ANSWER: Final = sql.SQL("CREATE OR REPLACE VIEW revenue AS SELECT {} AS view, * FROM {}")
COUNTRIES: Final = ("AT", "BR", "DE", "FR", "IN", "JP", "KE", "NO", "PE", "US")
BATCH: Final = 40  # so many events at most are folded in one transaction
_MAKE: Final = sql.SQL("CREATE TABLE {} (country text PRIMARY KEY, cents bigint NOT NULL)")
_TAKE_OVER: Final = sql.SQL("INSERT INTO {} SELECT * FROM {}")
_ADD: Final = sql.SQL(
    "INSERT INTO {} AS old VALUES (%s, %s) ON CONFLICT (country) DO UPDATE SET cents = old.cents + EXCLUDED.cents"
)


@dataclass(frozen=True, slots=True)
class OrderEvent:
    """An order is placed; or it is cancelled later, which takes its cents back."""

    country: str
    cents: int
    is_cancelled: bool = False


def plan_orders(random: Random, count: int) -> list[OrderEvent]:
    """Plan events: the first orders are one of each country; each fourth event cancels the oldest order that stands."""
    countries = iter([*COUNTRIES, *random.choices(COUNTRIES, k=count)])
    standing, events = list[OrderEvent](), list[OrderEvent]()
    for number in range(count):
        if number % 4 == 3:
            events.append(replace(standing.pop(0), is_cancelled=True))
        else:
            standing.append(OrderEvent(next(countries), random.randint(100, 99_999)))
            events.append(standing[-1])
    return events


def add_up(events: Sequence[OrderEvent]) -> dict[str, int]:
    """The revenue of each country: the right answer of a view that has read these events."""
    revenue = dict.fromkeys(COUNTRIES, 0)
    for event in events:
        revenue[event.country] += add_net(event)
    return revenue


def add_gross(event: OrderEvent) -> int:
    """The revenue that an event adds to its country, with a bug: a cancelled order still counts."""
    return 0 if event.is_cancelled else event.cents


def add_net(event: OrderEvent) -> int:
    return -event.cents if event.is_cancelled else event.cents


class RevenueView:
    """A table with the revenue of each country, and the group that reads the log for it. A new group begins at 0."""

    def __init__(
        self, session: Session, consumer: Any, log: TopicPartition, table: str, add: Callable[[OrderEvent], int]
    ) -> None:
        self._session, self._consumer, self._log, self._add = session, consumer, log, add
        self.table, self._name = table, sql.Identifier(table)
        self.folded = 0
        session.execute(_MAKE.format(self._name))

    @property
    def position(self) -> int:
        return int(self._consumer.position(self._log))

    def begin_as(self, other: "RevenueView") -> None:
        """Take over the sums of another view, and its position."""
        self._session.execute(_TAKE_OVER.format(self._name, other._name))
        self._consumer.seek(self._log, other.position)

    def fold_next(self, end: int) -> None:
        """Fold the next batch of the events before the offset `end`, and commit its offset."""
        added = Counter[str]()
        messages = take_exactly(self._consumer, min(BATCH, end - self.position))
        for event in (message.decode(OrderEvent) for message in messages):
            added[event.country] += self._add(event)
        with self._session.transaction():
            self._session.cursor().executemany(_ADD.format(self._name), list(added.items()))
        self._consumer.commit()
        self.folded += len(messages)

    def read(self) -> dict[str, int]:
        return dict(self._session.execute(sql.SQL("SELECT country, cents FROM {}").format(self._name)).fetchall())


class Replay:
    """The log, and the views on it while time goes on: events come in, views fold, somebody asks."""

    def __init__(self, place: Workplace, session: Session, topic: str) -> None:
        self._producer, self._session, self._topic = place.producer(), session, topic
        self.written = 0
        self.answers: list[str] = []
        self.positions: dict[str, list[tuple[float, float]]] = {"log": [], "old": [], "new": [], "mended": []}

    def produce(self, events: Sequence[OrderEvent]) -> None:
        for event in events:
            self._producer.send(self._topic, key=event.country, value=encode(event))
        self._producer.flush()
        self.written += len(events)

    def answer_from(self, view: RevenueView) -> None:
        """Let who asks be answered from this view: at once, and by one of the two at any time."""
        self._session.execute(_ANSWER.format(view.table, sql.Identifier(view.table)))

    def go_on(self, views: Sequence[RevenueView], events: Sequence[OrderEvent] = ()) -> None:
        """Let events come in, each view fold its next ones, and somebody ask for all countries."""
        self.produce(events)
        for view in views:
            view.fold_next(self.written)
        answers = self._session.execute("SELECT view FROM revenue").fetchall()
        self.answers += [answers[0][0]] if len(answers) == len(COUNTRIES) else [INCOMPLETE]
        now = read_clock() / 1000
        for name, position in (("log", self.written), *((view.table, view.position) for view in views)):
            self.positions[name].append((now, position))


def run(place: Workplace) -> Findings:
    events = plan_orders(place.random, LAST_WEEK + TODAY)
    session, topic = place.session(place.database("replay")), place.topic("orders")
    log, replay = TopicPartition(topic, 0), Replay(place, session, topic)
    replay.produce(events[:LAST_WEEK])

    def open_view(name: str, add: Callable[[OrderEvent], int]) -> RevenueView:
        return RevenueView(session, place.consumer(log, group_id=place.group(name)), log, name, add)

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
    rows = []
    for name, view in (("the old view", old), ("its sums, code mended", mended), ("a new view, from the log", new)):
        wrong = count_wrong(view.read(), add_up(events[: view.position]))
        rows.append((name, view.folded, *wrong, replay.answers.count(view.table)))
    (_, _, over, _, answered), (_, _, still_wrong, *_), (_, folded, none_wrong, *_) = rows
    return Findings(
        columns=("view", "events read", "countries wrong", "cents too much", "questions answered"),
        rows=rows,
        sentence=f"The bug made {over} of {len(COUNTRIES)} countries wrong, mended code leaves {still_wrong} so;"
        f" a new view read all {folded} events from the log, while the old one answered {answered} questions,"
        f" and has {none_wrong} wrong; {replay.answers.count(INCOMPLETE)} questions got no whole answer.",
        figure=_draw(replay.positions),
    )


def count_wrong(found: Mapping[str, int], truth: Mapping[str, int]) -> tuple[int, int]:
    """Countries with another revenue than the true one, and how much it is too much in all."""
    over = [found[country] - truth[country] for country in COUNTRIES]
    return sum(map(bool, over)), sum(over)


def _draw(positions: Mapping[str, Sequence[tuple[float, float]]]) -> Curves:
    """Draw how far the log goes, and how far each of the two views that answer has read it."""
    began, _ = positions["log"][0]
    names = {"log": "the log", "old": "the old view", "new": "the new view"}
    curves = {name: [(at - began, position) for at, position in positions[key]] for key, name in names.items()}
    title = "A new view reads the log from its beginning, until it has caught up; then the old one ends"
    return Curves(title, curves, "s", "events")
