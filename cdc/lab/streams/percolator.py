"""Saved searches: run each again over all documents now and then, or match each changed document with all of them.

What comes and goes between two runs is never found. A percolator keeps the searches in an index, and asks it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from opensearchpy import OpenSearch
from opensearchpy.helpers import bulk

from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Event, Span, Timeline
from cdc.lab.lesson import Findings, Lab
from cdc.lab.streams.events import publish, read_events
from cdc.lab.streams.saved_searches import (
    ROUND,
    SEARCHES,
    FlatChange,
    Match,
    SavedSearch,
    SearchFlat,
    Told,
    find_matches,
    find_told,
    measure,
    plan_flats,
    plan_searches_for_flats,
)
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service
from cdc.sinks.percolator.layout import OwnFields
from cdc.sinks.percolator.search import percolate

SELDOM: Final = 3 * ROUND
"""Changes between two runs of all searches."""
OWN: Final = OwnFields("query", "search")
FIELDS: Final = {"title": {"type": "text"}, "town": {"type": "keyword"}, "rent": {"type": "integer"}}
QUERIES: Final = {OWN.query: {"type": "percolator"}, OWN.key: {"type": "keyword"}}
DRAWN: Final = 3
"""So many missed matches are drawn."""


@dataclass(frozen=True, slots=True)
class SearchWatch:
    """One way to find matches: what was told, by so many searches over all flats, or flats given to all searches."""

    told: list[Told]
    searches: int
    percolated: int


def run(place: Workplace) -> Findings:
    searches, planned = plan_searches_for_flats(place.random), plan_flats(place.random)
    topic = place.topic("flats")
    publish(place, topic, planned, lambda change: change.flat)
    changes = read_events(place, topic, FlatChange)
    place.say(f"{len(changes)} changes of flats, {SEARCHES} saved searches")
    with OpenSearch(hosts=[place.parts.search_url], timeout=60) as client:
        found = {
            f"searched every {SELDOM} changes": _poll(client, place.index("flats-seldom"), searches, changes, SELDOM),
            f"searched every {ROUND} changes": _poll(client, place.index("flats-often"), searches, changes, ROUND),
            "percolator": _percolate(client, place.index("searches"), searches, changes),
        }
    matches = find_matches(searches, changes)
    rows = []
    for name, watch in found.items():
        missed, delay = measure(matches, watch.told)
        rows.append((name, len(matches), missed, delay, watch.searches, watch.percolated))
    seldom, often, percolator = rows
    return Findings(
        columns=("way", "matches", "missed", "told after changes", "searches over all flats", "flats percolated"),
        rows=tuple(rows),
        sentence=f"Of {len(matches)} matches {seldom[2]} are never found when all searches are run every {SELDOM}"
        f" changes, {often[2]} when every {ROUND}; the others are told {seldom[3]:g} and {often[3]:g} changes late."
        f" A percolator, asked with each changed flat, misses {percolator[2]} and is {percolator[3]:g} late.",
        figure=_draw(matches, found[f"searched every {SELDOM} changes"].told),
    )


def _poll(
    client: OpenSearch, index: str, searches: Sequence[SavedSearch], changes: Sequence[FlatChange], every: int
) -> SearchWatch:
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
        told += [Told(pair, at) for pair in now - before]
        before = now
    return SearchWatch(told, runs, 0)


def _write(index: str, change: FlatChange) -> dict[str, Any]:
    # a flat that came and went since the last time is not there to be deleted
    kind = {"_op_type": "index", "_source": change.document} if change.is_there else {"_op_type": "delete"}
    return {"_index": index, "_id": change.flat, **kind}


def _percolate(
    client: OpenSearch, index: str, searches: Sequence[SavedSearch], changes: Sequence[FlatChange]
) -> SearchWatch:
    """Put the searches into an index, and ask it at each change which ones match the flat."""
    client.indices.create(index=index, body={"mappings": {"properties": FIELDS | QUERIES}})
    bulk(client, [{"_index": index, OWN.query: s.query, OWN.key: s.name} for s in searches], refresh=True)
    told, present, percolated = list[Told](), set[SearchFlat](), 0
    for at, change in enumerate(changes, 1):
        asked = percolate(client, index, OWN, [json.dumps(change.document)]) if change.is_there else ()
        now = {(str(search), change.flat) for search, _ in asked}
        percolated += change.is_there
        told += [Told(pair, at) for pair in now - present]
        present = {pair for pair in present if pair[1] != change.flat} | now
    return SearchWatch(told, 0, percolated)


def _draw(matches: Sequence[Match], polled: Sequence[Told]) -> Timeline:
    """Draw some matches, missed ones first, and when all searches were run."""
    is_missed = {match: find_told(match, polled) is None for match in matches}
    # one of each flat
    missed = [*{match.pair[1]: match for match in matches if is_missed[match]}.values()]
    told = sorted((match for match in matches if not is_missed[match]), key=lambda match: match.begins - match.ends)
    shown = sorted([*missed[:: len(missed) // DRAWN][:DRAWN], *told[:2]], key=lambda match: match.begins)
    lanes = {match: " finds ".join(match.pair) for match in shown}
    spans = [Span(lanes[m], m.begins, m.ends, "", Tone.BAD if is_missed[m] else Tone.PLAIN) for m in shown]
    runs = [Event("all searches are run", at, tone=Tone.PLAIN) for at in range(0, max(m.ends for m in shown), SELDOM)]
    asked = [Event("percolator tells", match.begins, tone=Tone.GOOD) for match in shown]
    title = "Flats that match saved searches; red: gone before the searches were run again"
    names = (*lanes.values(), "all searches are run", "percolator tells")
    return Timeline(title, names, events=(*runs, *asked), spans=tuple(spans), unit="changes")


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Uses of Stream Processing", "Search on streams"),
        Passage(SECOND, "Uses of Stream Processing", "Search on streams"),
    ),
    files=("sinks/percolator/follower.py", "sinks/percolator/search.py", "sinks/percolator/percolators.py"),
    parts=(Service.KAFKA, Service.SEARCH),
    run=run,
)
