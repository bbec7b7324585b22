"""Stream-stream: each search with the clicks on its results within an hour, or with none."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

SEARCHES: Final = 60
HOUR: Final = 60.0
"""Times are minutes."""
LATEST: Final = 10.0
"""An event comes less than so long after it happened."""

SearchClick = tuple[int, int | None]
"""A search with a click on one of its results; with None when nobody clicked."""


@dataclass(frozen=True, slots=True)
class Search:
    """Somebody searches."""

    id: int
    at: float

    @property
    def key(self) -> str:
        return str(self.id)


@dataclass(frozen=True, slots=True)
class ResultClick:
    """Somebody clicks a result of a search."""

    id: int
    search: int
    at: float

    @property
    def key(self) -> str:
        return str(self.search)


def plan_searches(random: Random) -> list[tuple[float, Search | ResultClick]]:
    """Plan searches and clicks, each with the time when it comes, in that order.

    Of five searches one is overtaken by its click, one is not clicked, and one is clicked too late.
    """
    coming: list[tuple[float, Search | ResultClick]] = []
    for id, at in enumerate(sorted(random.uniform(0, 10 * HOUR) for _ in range(SEARCHES))):
        kind = id % 5
        coming.append((at + (random.uniform(4, LATEST - 1) if kind == 0 else 0), Search(id, at)))
        waits = {0: [random.uniform(1, 3)], 1: [], 2: [random.uniform(HOUR + 1, 2 * HOUR)]}
        for wait in waits.get(kind) or [random.uniform(1, HOUR - 1) for _ in range(random.randint(1, 3) * (kind > 2))]:
            coming.append((at + wait, ResultClick(len(coming), id, at + wait)))
    return sorted(coming, key=lambda each: each[0])


def compare_all(events: Sequence[Search | ResultClick]) -> set[SearchClick]:
    """The right answer: compare each search with each click."""
    searches = [each for each in events if isinstance(each, Search)]
    clicks = [each for each in events if isinstance(each, ResultClick)]
    clicked = {(s.id, c.id) for s in searches for c in clicks if s.id == c.search and c.at - s.at <= HOUR}
    return clicked | {(s.id, None) for s in searches if s.id not in {search for search, _ in clicked}}


class SearchesWithClicks:
    """Keeps searches for an hour; clicks, too, until no search from before them can come."""

    def __init__(self, *, keeps_clicks: bool) -> None:
        self.found: set[SearchClick] = set()
        self._keeps_clicks = keeps_clicks
        self._searches: dict[int, Search] = {}
        self._clicks: list[ResultClick] = []
        self._newest = 0.0

    @property
    def kept(self) -> int:
        return len(self._searches) + len(self._clicks)

    def take(self, event: Search | ResultClick) -> None:
        match event:
            case Search():
                self._searches[event.id] = event
                for click in self._clicks:
                    self._match(click)
            case ResultClick():
                self._match(event)
                if self._keeps_clicks:
                    self._clicks.append(event)
        self._newest = max(self._newest, event.at)
        self._expire(self._newest - LATEST)

    def end(self) -> None:
        self._expire(float("inf"))

    def _match(self, click: ResultClick) -> None:
        search = self._searches.get(click.search)
        if search and click.at - search.at <= HOUR:
            self.found.add((search.id, click.id))

    def _expire(self, complete: float) -> None:
        """Forget what nothing can match any more, now that all has come that happened until `complete`."""
        clicked = {search for search, _ in self.found}
        for search in [each for each in self._searches.values() if each.at + HOUR < complete]:
            if search.id not in clicked:
                self.found.add((search.id, None))
            del self._searches[search.id]
        self._clicks = [click for click in self._clicks if click.at >= complete]
