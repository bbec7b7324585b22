"""Three joins of streams, each written in a minute, and then with the state that it needs to be right.

A click may come before its search, a profile changes, a post is older than its reader's interest: an event that the
other side will need must be kept, for as long as it can be needed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kafka import TopicPartition

from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Arrow, Span, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.messages import Message, take
from cdc.lab.streams import joined
from cdc.lab.streams.joined import HOUR, ResultClick, Search, Searching, StreamJoin
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace

DRAWN: Final = {0: "its click was here first", 6: "nobody clicks", 12: "clicked too late"}
"""Searches that are drawn, and their fate."""

Coming = Sequence[tuple[float, Searching]]
Row = tuple[str, int, int, int, int]


def run(place: Workplace) -> Findings:
    coming = joined.plan_searches(place.random)
    views, posts = joined.plan_views(place.random), joined.plan_posts(place.random)
    rows: list[Row] = []
    cases: Sequence[tuple[Sequence[Any], type[StreamJoin]]] = (
        ([event for _, event in coming], joined.SearchesWithClicks),
        (views, joined.ViewsWithTowns),
        (posts, joined.HomeTimelines),
    )
    for events, join in cases:
        rows += _watch(place, events, join)
    (missed, wrong), (none_missed, none_wrong) = (
        (sum(row[2] for row in rows[first::2]), sum(row[3] for row in rows[first::2])) for first in (0, 1)
    )
    return Findings(
        columns=("join", "rows expected", "missing", "not expected", "most entries kept"),
        rows=rows,
        sentence=f"A join that keeps too little of its sides, or an old copy, misses {missed} rows and has"
        f" {wrong} wrong ones, like a post of somebody who is no longer followed; with the events that are needed it"
        f" misses {none_missed} and has {none_wrong}.",
        figure=_draw(coming),
    )


def _watch(place: Workplace, events: Sequence[Any], kind: type[StreamJoin]) -> list[Row]:
    """Let both ways of a join take the events as a consumer gets them; returns their rows."""
    joins = {f"{kind.name}: {way}": kind(keeps_all=way == kind.ways[1]) for way in kind.ways}
    most = dict.fromkeys(joins, 0)
    for event in _pass_through(place, events):
        for name, join in joins.items():
            join.take(event)
            most[name] = max(most[name], join.kept)
    right, rows = kind.find_right(events), []
    for name, join in joins.items():
        join.end()
        rows.append((name, len(right), len(right - join.found), len(join.found - right), most[name]))
    return rows


def _pass_through(place: Workplace, events: Sequence[Any]) -> Iterator[Any]:
    """Send events, each kind to a topic of its own, and consume them; yields them in the order in which they are given.

    No broker promises an order between topics. Here the consumer makes it: it asks one topic, then the other.
    """
    streams = {}
    for kind in dict.fromkeys(map(type, events)):
        topic = place.topic(kind.__name__.lower())
        place.publish(topic, [event for event in events if isinstance(event, kind)])
        streams[kind] = _consume(place.consumer(TopicPartition(topic, 0)), kind)
    for event in events:
        yield next(streams[type(event)])


def _consume(consumer: Any, kind: type[Any]) -> Iterator[Any]:
    """Consume for ever, each event when it is asked for."""
    messages: list[Message] = []

    def has_come() -> bool:
        messages[:] = take(consumer)
        return bool(messages)

    while True:
        wait_for(has_come, f"the next {kind.__name__}")
        yield from (message.decode(kind) for message in messages)


def _draw(coming: Coming) -> Timeline:
    """Draw three searches: one comes after its click, one is not clicked, one is clicked too late."""
    arrows, spans = [], []
    for at, event in coming:
        match event:
            case Search(id, happened) if id in DRAWN:
                arrows.append(Arrow("searches", happened, "join", at, f"search {id}"))
                spans.append(Span(f"search {id} is kept", at, happened + HOUR, DRAWN[id], Tone.QUIET))
            case ResultClick(_, search, happened) if search in DRAWN:
                tone = Tone.BAD if search == 0 else Tone.PLAIN
                arrows.append(Arrow("clicks", happened, "join", at + 1, f"on {search}", tone))
    title = "A click overtakes its search (red): a join keeps both, until nothing can match any more"
    lanes = ["searches", "join", "clicks", *(f"search {id} is kept" for id in DRAWN)]
    return Timeline(title, lanes, (), spans, arrows, "min")
