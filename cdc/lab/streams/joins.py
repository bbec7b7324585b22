"""Three joins of streams, each written in a minute, and then with the state that it needs to be right.

A click may come before its search, a profile changes, a post is older than its reader's interest: what the other side
will need must be kept, for as long as it can be needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal, Protocol

from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Arrow, Span, Timeline
from cdc.lab.lesson import Findings, Lab
from cdc.lab.streams.events import pass_through
from cdc.lab.streams.stream_stream import HOUR, ResultClick, Search, SearchesWithClicks, compare_all, plan_searches
from cdc.lab.streams.stream_table import ViewsWithTowns, look_back, plan_views
from cdc.lab.streams.table_table import HomeTimelines, ask_tables, plan_posts
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

DRAWN: Final = {0: "its click was here first", 6: "nobody clicks", 12: "clicked too late"}
"""Searches that are drawn, and what one sees."""

Coming = Sequence[tuple[float, Search | ResultClick]]


class StreamJoin(Protocol):
    """A join that takes one event after the other: what it has found, and how many events or rows it keeps."""

    @property
    def found(self) -> set[Any]: ...
    @property
    def kept(self) -> int: ...
    def take(self, event: Any) -> None: ...
    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class JoinCase:
    """Two streams, joined in two ways; and the right answer, found by looking at all events at once."""

    events: Sequence[Any]
    find_right: Callable[[Sequence[Any]], set[Any]]
    ways: Mapping[str, StreamJoin]


def run(place: Workplace) -> Findings:
    coming = plan_searches(place.random)
    rows = [row for case in plan_cases(place.random, coming) for row in _watch(place, case)]
    return Findings(
        columns=("join", "rows expected", "missing", "not expected", "most entries kept"),
        rows=tuple(rows),
        sentence=f"A join that keeps too little of its sides, or an old copy, misses {_add(rows[::2], 2)} rows and has"
        f" {_add(rows[::2], 3)} wrong ones, like a post of somebody who is no longer followed; with what is needed it"
        f" misses {_add(rows[1::2], 2)} and has {_add(rows[1::2], 3)}.",
        figure=_draw(coming),
    )


def _add(rows: Sequence[tuple[str, int, int, int, int]], place: Literal[2, 3]) -> int:
    return sum(row[place] for row in rows)


def plan_cases(random: Random, coming: Coming) -> list[JoinCase]:
    """Plan the three joins."""
    return [
        JoinCase(
            [event for _, event in coming],
            compare_all,
            {
                "stream-stream, searches and clicks: searches kept": SearchesWithClicks(keeps_clicks=False),
                "stream-stream, searches and clicks: both kept": SearchesWithClicks(keeps_clicks=True),
            },
        ),
        JoinCase(
            plan_views(random),
            look_back,
            {
                "stream-table, views and profiles: table copied once": ViewsWithTowns(follows_changes=False),
                "stream-table, views and profiles: changes followed": ViewsWithTowns(follows_changes=True),
            },
        ),
        JoinCase(
            plan_posts(random),
            ask_tables,
            {
                "table-table, posts and follows: joined when a post comes": HomeTimelines(keeps_posts=False),
                "table-table, posts and follows: when either changes": HomeTimelines(keeps_posts=True),
            },
        ),
    ]


def _watch(place: Workplace, case: JoinCase) -> list[tuple[str, int, int, int, int]]:
    """Let each way take the events as a consumer gets them; returns its row."""
    most = dict.fromkeys(case.ways, 0)
    for event in pass_through(place, case.events):
        for name, join in case.ways.items():
            join.take(event)
            most[name] = max(most[name], join.kept)
    right = case.find_right(case.events)
    for join in case.ways.values():
        join.end()
    return [
        (name, len(right), len(right - join.found), len(join.found - right), most[name])
        for name, join in case.ways.items()
    ]


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
    lanes = ("searches", "join", "clicks", *(f"search {id} is kept" for id in DRAWN))
    return Timeline(title, lanes, spans=tuple(spans), arrows=tuple(arrows), unit="min")


LAB: Final = Lab(
    passages=tuple(Passage(edition, "Stream Joins") for edition in (FIRST, SECOND)),
    files=("cdc/views/refresh/touched.py", "cdc/views/refresh/needed.py", "cdc/views/TIME.md"),
    parts=(Service.KAFKA,),
    run=run,
)
