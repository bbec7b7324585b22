"""Flats that are offered, and saved searches for them: which match when, found by trying each search at each change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Any, Final

CHANGES: Final = 120
ROUND: Final = 10
"""In each so many changes a bargain comes, and goes three changes later."""
TOWNS: Final = ("Bern", "Oslo", "Rome", "Wien")
WORDS: Final = ("balcony", "garden", "lift", "terrace")
SEARCHES: Final = 24

SearchFlat = tuple[str, str]
"""The names of a search, and of a flat that it finds."""


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """What somebody wants to be told of; an empty word is any."""

    name: str
    town: str
    most: int
    word: str = ""

    @property
    def query(self) -> dict[str, Any]:
        """The search in OpenSearch's language."""
        must = [{"match": {"title": self.word}}] if self.word else []
        return {
            "bool": {"must": must, "filter": [{"term": {"town": self.town}}, {"range": {"rent": {"lte": self.most}}}]}
        }

    def finds(self, flat: "FlatChange") -> bool:
        has_word = not self.word or self.word in flat.title.split()
        return flat.is_there and flat.town == self.town and flat.rent <= self.most and has_word


@dataclass(frozen=True, slots=True)
class FlatChange:
    """A flat is offered, or its offer changes, or it is let."""

    flat: str
    title: str
    town: str
    rent: int
    is_there: bool = True

    @property
    def document(self) -> dict[str, Any]:
        return {"title": self.title, "town": self.town, "rent": self.rent}


@dataclass(frozen=True, slots=True)
class Match:
    """A search finds a flat, from a change on and until another, which are numbered from 1."""

    pair: SearchFlat
    begins: int
    ends: int


@dataclass(frozen=True, slots=True)
class Told:
    """Somebody is told of a flat, after so many changes."""

    pair: SearchFlat
    at: int


def plan_searches_for_flats(random: Random) -> list[SavedSearch]:
    """Plan searches: in each town one for any cheap flat, and others."""
    any_cheap = [SavedSearch(f"search {n}", town, 500) for n, town in enumerate(TOWNS)]
    others = range(len(TOWNS), SEARCHES)
    return any_cheap + [
        SavedSearch(f"search {n}", random.choice(TOWNS), random.randint(3, 15) * 100, random.choice(WORDS))
        for n in others
    ]


def plan_flats(random: Random) -> list[FlatChange]:
    """Plan changes of flats; in every round there is a bargain for a short while."""

    def offer(flat: str, rent: int) -> FlatChange:
        return FlatChange(flat, " ".join(random.sample(WORDS, 2)), random.choice(TOWNS), rent)

    changes = []
    for number in range(CHANGES):
        if number % ROUND == 2:
            bargain = offer(f"bargain {number // ROUND}", 300)
            changes.append(bargain)
        elif number % ROUND == 5:
            changes.append(FlatChange(bargain.flat, bargain.title, bargain.town, bargain.rent, is_there=False))
        else:
            changes.append(offer(f"flat {random.randrange(CHANGES // 4)}", random.randint(4, 20) * 100))
    return changes


def find_matches(searches: Sequence[SavedSearch], changes: Sequence[FlatChange]) -> list[Match]:
    """The right answer: try each search at each change."""
    found: list[Match] = []
    present: dict[SearchFlat, int] = {}
    for at, change in enumerate(changes, 1):
        for search in searches:
            pair = search.name, change.flat
            if search.finds(change):
                present.setdefault(pair, at)
            elif pair in present:
                found.append(Match(pair, present.pop(pair), at))
    return found + [Match(pair, begins, len(changes) + 1) for pair, begins in present.items()]


def find_told(match: Match, told: Iterable[Told]) -> Told | None:
    """The first time when somebody was told of a match, while it was one."""
    times = (each for each in told if each.pair == match.pair and match.begins <= each.at < match.ends)
    return min(times, key=lambda each: each.at, default=None)


def measure(matches: Sequence[Match], told: Sequence[Told]) -> tuple[int, float]:
    """How many matches nobody was told of, and after how many changes one was told of the others: the median."""
    delays = [first.at - match.begins for match in matches if (first := find_told(match, told))]
    return len(matches) - len(delays), round(float(median(delays)), 1)
