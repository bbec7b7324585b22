"""Saved searches: run each again over all documents now and then, or match each changed document with all of them.

A document that comes and goes between two runs is never found. A percolator keeps the searches in an index.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import median
from typing import Any, Final, NamedTuple

from opensearchpy import OpenSearch
from opensearchpy.helpers import bulk

from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Event, Span, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.workplace import Workplace
from cdc.sinks.percolator.layout import OwnFields
from cdc.sinks.percolator.search import percolate

CHANGES: Final = 120
ROUND: Final = 10  # in each so many changes a bargain comes, and goes three changes later
TOWNS: Final = ("Bern", "Oslo", "Rome", "Wien")
WORDS: Final = ("balcony", "garden", "lift", "terrace")
SEARCHES: Final = 24
SELDOM: Final = 3 * ROUND  # changes between two runs of all searches
OWN: Final = OwnFields("query", "search")
FIELDS: Final = {"title": {"type": "text"}, "town": {"type": "keyword"}, "rent": {"type": "integer"}}
QUERIES: Final = {OWN.query: {"type": "percolator"}, OWN.key: {"type": "keyword"}}
DRAWN: Final = 3  # so many missed matches are drawn
RUNS, TELLS = "all searches are run", "percolator tells"

SearchFlat = tuple[str, str]
"""The names of a search, and of a flat that it finds."""


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """Flats that somebody wants to be told of; an empty word is any."""

    name: str
    town: str
    most: int
    word: str = ""

    @property
    def query(self) -> dict[str, Any]:
        must = [{"match": {"title": self.word}}] if self.word else []
        filters = [{"term": {"town": self.town}}, {"range": {"rent": {"lte": self.most}}}]
        return {"bool": {"must": must, "filter": filters}}

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


class Match(NamedTuple):
    """A search finds a flat, from a change on and until another, which are numbered from 1."""

    pair: SearchFlat
    begins: int
    ends: int


Told = tuple[SearchFlat, int]
"""Somebody is told of a flat, after so many changes."""


Watched = tuple[list[Told], int, int]
"""All that was told; by so many searches over all flats, or flats given to all searches."""


def plan_searches(random: Random) -> list[SavedSearch]:
    """Plan searches: in each town one for any cheap flat, and others."""
    any_cheap = [SavedSearch(f"search {n}", town, 500) for n, town in enumerate(TOWNS)]
    return any_cheap + [
        SavedSearch(f"search {n}", random.choice(TOWNS), random.randint(3, 15) * 100, random.choice(WORDS))
        for n in range(len(TOWNS), SEARCHES)
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
            changes.append(replace(bargain, is_there=False))
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


def find_told(match: Match, told: Iterable[Told]) -> int | None:
    """The first time when somebody was told of a match, while it was one."""
    return min((at for pair, at in told if pair == match.pair and match.begins <= at < match.ends), default=None)


def measure(matches: Sequence[Match], told: Sequence[Told]) -> tuple[int, float]:
    """How many matches nobody was told of, and after how many changes one was told of the others: the median."""
    delays = [first - match.begins for match in matches if (first := find_told(match, told))]
    return len(matches) - len(delays), round(float(median(delays)), 1)


def run(place: Workplace) -> Findings:
    searches, planned = plan_searches(place.random), plan_flats(place.random)
    topic = place.publish(place.topic("flats"), planned)
    changes = place.read(topic, FlatChange)
    place.say(f"{len(changes)} changes of flats, {SEARCHES} saved searches")
    client = place.search
    found = {
        f"searched every {SELDOM} changes": _poll(client, place.index("flats-seldom"), searches, changes, SELDOM),
        f"searched every {ROUND} changes": _poll(client, place.index("flats-often"), searches, changes, ROUND),
        "percolator": _percolate(client, place.index("searches"), searches, changes),
    }
    matches = find_matches(searches, changes)
    rows = [(name, len(matches), *measure(matches, told), *cost) for name, (told, *cost) in found.items()]
    seldom, often, percolator = rows
    return Findings(
        columns=("way", "matches", "missed", "told after changes", "searches over all flats", "flats percolated"),
        rows=rows,
        sentence=f"Of {len(matches)} matches {seldom[2]} are never found when all searches are run every {SELDOM}"
        f" changes, {often[2]} when every {ROUND}; the others are told {seldom[3]:g} and {often[3]:g} changes late."
        f" A percolator, asked with each changed flat, misses {percolator[2]} and is {percolator[3]:g} late.",
        figure=_draw(matches, found[f"searched every {SELDOM} changes"][0]),
    )


def _poll(
    client: OpenSearch, index: str, searches: Sequence[SavedSearch], changes: Sequence[FlatChange], every: int
) -> Watched:
    """Bring the index of flats up to date and run each search in it, now and then."""
    client.indices.create(index=index, body={"mappings": {"properties": FIELDS}})
    told, before, runs = list[Told](), set[SearchFlat](), 0
    lines = [
        line for search in searches for line in ({}, {"query": search.query, "size": len(changes), "_source": False})
    ]
    for at in range(every, len(changes) + 1, every):
        newest = {change.flat: change for change in changes[:at]}
        recent = {change.flat for change in changes[at - every : at]}
        bulk(client, [_write(index, newest[flat]) for flat in recent], raise_on_error=False, refresh=True)
        answers = client.msearch(index=index, body=lines)["responses"]
        runs += len(searches)
        hits = zip(searches, (answer["hits"]["hits"] for answer in answers), strict=True)
        now = {(search.name, hit["_id"]) for search, each in hits for hit in each}
        told += [(pair, at) for pair in now - before]
        before = now
    return told, runs, 0


def _write(index: str, change: FlatChange) -> dict[str, Any]:
    # a flat that came and went since the last time is not there to be deleted
    kind = {"_op_type": "index", "_source": change.document} if change.is_there else {"_op_type": "delete"}
    return {"_index": index, "_id": change.flat, **kind}


def _percolate(
    client: OpenSearch, index: str, searches: Sequence[SavedSearch], changes: Sequence[FlatChange]
) -> Watched:
    """Put the searches into an index, and ask it at each change which ones match the flat."""
    client.indices.create(index=index, body={"mappings": {"properties": FIELDS | QUERIES}})
    bulk(client, [{"_index": index, OWN.query: s.query, OWN.key: s.name} for s in searches], refresh=True)
    told, present, percolated = list[Told](), set[SearchFlat](), 0
    for at, change in enumerate(changes, 1):
        asked = percolate(client, index, OWN, [json.dumps(change.document)]) if change.is_there else ()
        now = {(str(search), change.flat) for search, _ in asked}
        percolated += change.is_there
        told += [(pair, at) for pair in now - present]
        present = {pair for pair in present if pair[1] != change.flat} | now
    return told, 0, percolated


def _draw(matches: Sequence[Match], polled: Sequence[Told]) -> Timeline:
    """Draw some matches, missed ones first, and when all searches were run."""
    is_missed = {match: find_told(match, polled) is None for match in matches}
    # one of each flat
    missed = [*{match.pair[1]: match for match in matches if is_missed[match]}.values()]
    told = sorted((match for match in matches if not is_missed[match]), key=lambda match: match.begins - match.ends)
    shown = sorted([*missed[:: len(missed) // DRAWN][:DRAWN], *told[:2]], key=lambda match: match.begins)
    lanes = {match: " finds ".join(match.pair) for match in shown}
    spans = [Span(lanes[m], m.begins, m.ends, "", Tone.BAD if is_missed[m] else Tone.PLAIN) for m in shown]
    runs = [Event(RUNS, at, tone=Tone.PLAIN) for at in range(0, max(match.ends for match in shown), SELDOM)]
    asked = [Event(TELLS, match.begins, tone=Tone.GOOD) for match in shown]
    title = "Flats that match saved searches; red: gone before the searches were run again"
    return Timeline(title, [*lanes.values(), RUNS, TELLS], [*runs, *asked], spans, unit="changes")
