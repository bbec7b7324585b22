"""The index as a searcher sees it: watched while changes come in, read back whole, filled raw."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from tests.bench.world.jobs import Job
from tests.bench.world.visible import Places, PlaceSight
from tests.bench.world.watching import repeated
from tests.support.waiting import until

LOOK_SECONDS = 0.02
PAGE = 5_000
_BUCKETS = {"writers": {"terms": {"field": "writer", "size": 64}, "aggs": {"highest": {"max": {"field": "seq"}}}}}


@contextmanager
def places_seen(url: str, index: str, writers: int, places: Places) -> Iterator[PlaceSight]:
    """Search again and again for the highest place of each writer, in a thread, as long as the context lasts.

    `places` may be filled later: it is looked at when somebody asks when a transaction was found.
    """
    sight = PlaceSight(places)
    with httpx.Client(base_url=url, timeout=60) as client:

        def look() -> None:
            # nothing at or below what is known of all of them can be new
            known = [samples[-1][1] for samples in sight.found.values()]
            lowest = min(known) if len(known) == writers else 0
            query = {"size": 0, "query": {"range": {"seq": {"gt": lowest}}}, "aggs": _BUCKETS}
            answer = client.post(f"/{index}/_search", json=query).raise_for_status()
            buckets = answer.json()["aggregations"]["writers"]["buckets"]
            sight.find(time.time(), {each["key"]: int(each["highest"]["value"]) for each in buckets})

        with repeated(look, LOOK_SECONDS) as sight.watching:
            yield sight


def place_field(writer: int) -> str:
    """The field of a document with the highest place of one writer in it, where it has one for each."""
    return f"writer_{writer}"


@contextmanager
def highest_seen(url: str, index: str, writers: Sequence[int], places: Places) -> Iterator[PlaceSight]:
    """The same of documents with a field for each writer (`place_field`)."""
    sight = PlaceSight(places)
    highest = {str(writer): {"max": {"field": place_field(writer)}} for writer in writers}
    with httpx.Client(base_url=url, timeout=60) as client:

        def look() -> None:
            answer = client.post(f"/{index}/_search", json={"size": 0, "aggs": highest}).raise_for_status()
            found = {int(writer): each["value"] for writer, each in answer.json()["aggregations"].items()}
            sight.find(time.time(), {writer: int(place) for writer, place in found.items() if place})

        with repeated(look, LOOK_SECONDS) as sight.watching:
            yield sight


def documents(url: str, index: str) -> Iterator[dict[str, Any]]:
    """Every hit of an index, `_id` and `_source`, page by page in the order of `id`."""
    with httpx.Client(base_url=url, timeout=120) as client:
        after: list[Any] | None = None
        while True:
            query: dict[str, Any] = {"size": PAGE, "sort": [{"id": "asc"}], "track_total_hits": False}
            query |= {"search_after": after} if after else {}
            hits = client.post(f"/{index}/_search", json=query).raise_for_status().json()["hits"]["hits"]
            yield from hits
            if len(hits) < PAGE:
                return
            after = hits[-1]["sort"]


def count(client: httpx.Client, index: str) -> int:
    """How many documents a search finds; 0 where there is no such index."""
    answer = client.get(f"/{index}/_count")
    return int(answer.json()["count"]) if answer.is_success else 0


def wait_until_found(url: str, index: str, xid: int, job: Job, limit: float) -> float:
    """When a search found a row of this transaction, by the wall clock; fails when `job` ends before."""
    with httpx.Client(base_url=url, timeout=60) as client:

        def found() -> bool:
            answer = client.get(f"/{index}/_count", params={"q": f"xid:{xid}"})
            return (answer.is_success and answer.json()["count"] > 0) or job.check()

        until(found, "a search finds a change", limit)
    return time.time()


def indexed(client: httpx.Client, index: str) -> int:
    """How many documents an index has taken, found or not; 0 where there is no such index."""
    answer = client.get(f"/{index}/_stats/indexing")
    return int(answer.json()["_all"]["primaries"]["indexing"]["index_total"]) if answer.is_success else 0
