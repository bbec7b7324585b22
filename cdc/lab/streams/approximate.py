"""How many different visitors, and which pages have the most visits? Exact answers keep every visitor and every page.

A small sample cannot tell how many are different, and numbers of partitions cannot be added. Sketches keep kilobytes
of any number of visits, are a few per cent wrong, and can be merged.
"""

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nlargest
from random import Random
from typing import Any, Final

from datasketches import frequent_items_error_type, frequent_strings_sketch, hll_sketch, hll_union, tgt_hll_type

from cdc.lab.figures.curves import Curves
from cdc.lab.lesson import Findings
from cdc.lab.messages import read_whole
from cdc.lab.workplace import Workplace

VISITS: Final = 100_000
VISITORS: Final = 40_000
PAGES: Final = 30_000
IN_MESSAGE: Final = 50  # visits that a server sends together
PARTITIONS: Final = 4
STEPS: Final = 40  # so often one looks at the numbers, for the figure
EXACT, SAMPLED, ADDED, MERGED = WAYS = "exact", "a hundredth, times 100", "sketches, added", "sketches, merged"
TOP: Final = 10
SAMPLE: Final = 100  # one of so many visits is in the sample
VISITOR_BITS: Final = 12  # 2 to this are the registers of the sketch of visitors, of four bits each
PAGE_BITS: Final = 10  # 2 to this is the room of the sketch of pages, of which it uses three quarters

Visit = tuple[str, str]
"""The visitor, and the page."""


class Exact:
    """Every visitor, and every page with its visits."""

    def __init__(self) -> None:
        self.visitors: set[str] = set()
        self.pages: Counter[str] = Counter()

    def add(self, visits: Iterable[Visit]) -> None:
        self.visitors.update(visitor for visitor, _ in visits)
        self.pages.update(page for _, page in visits)


class Sample:
    """A visit now and then; each counts for all the others that are not in it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.visits: list[Visit] = []

    def add(self, visits: Iterable[Visit]) -> None:
        self.visits += [visit for visit in visits if self._random.randrange(SAMPLE) == 0]

    @property
    def visitors(self) -> int:
        return SAMPLE * len({visitor for visitor, _ in self.visits})

    @property
    def pages(self) -> dict[str, int]:
        return {page: SAMPLE * count for page, count in Counter(page for _, page in self.visits).items()}


class Sketches:
    """HyperLogLog of the visitors, and the frequent items of the pages."""

    def __init__(self) -> None:
        self.visitors: Any = hll_sketch(VISITOR_BITS, tgt_hll_type.HLL_4)
        self.pages: Any = frequent_strings_sketch(PAGE_BITS)

    def add(self, visits: Iterable[Visit]) -> None:
        for visitor, page in visits:
            self.visitors.update(visitor)
            self.pages.update(page)


def count_visitors(parts: Sequence[Sketches]) -> float:
    """Merge the sketches of visitors; returns how many different ones they have seen."""
    union: Any = hll_union(VISITOR_BITS)
    for part in parts:
        union.update(part.visitors)
    return float(union.get_estimate())


def merge_pages(parts: Sequence[Sketches]) -> dict[str, int]:
    """Merge the sketches of pages; returns the pages that they still know, with their visits."""
    merged: Any = frequent_strings_sketch(PAGE_BITS)
    for part in parts:
        merged.merge(part.pages)
    known = merged.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES)
    return {page: estimate for page, estimate, _, _ in known}


def list_top(counts: Mapping[str, int]) -> list[str]:
    return nlargest(TOP, counts, key=lambda page: (counts[page], page))


def measure_bytes(texts: Collection[str]) -> int:
    """The bytes of a set or a dictionary with its texts."""
    return sys.getsizeof(texts) + sum(map(sys.getsizeof, texts))


def run(place: Workplace) -> Findings:
    place.say(f"{VISITS:,} visits in {PARTITIONS} partitions, wherever their server sends them")
    visits, turns = plan_visits(place.random), iter(range(VISITS))
    sent = [visits[start : start + IN_MESSAGE] for start in range(0, VISITS, IN_MESSAGE)]
    topic = place.topic("approximate", PARTITIONS)
    place.publish(topic, sent, partition=lambda _: next(turns) % PARTITIONS)
    messages = read_whole(place.consumer(), topic)
    exact, sample, parts = Exact(), Sample(place.random), [Sketches() for _ in range(PARTITIONS)]
    seen: dict[str, list[tuple[float, float]]] = {way: [(0.0, 0.0)] for way in WAYS}
    for number, message in enumerate(messages, 1):
        for summary in (exact, sample, parts[message.partition]):
            summary.add(message.decode(list[Visit]))
        if number % (len(messages) // STEPS) == 0:
            for way, visitors in _count(exact, sample, parts).items():
                seen[way].append((number * IN_MESSAGE / 1000, visitors))
    rows = _describe(exact, sample, parts)
    return Findings(
        columns=("question: way", "answer", "off by %", "bytes kept"),
        rows=rows,
        sentence=f"The number of visitors is off by {rows[1][2]:.0f} % from a sample, by {rows[2][2]:.0f} % when"
        f" partitions are added, by {rows[3][2]} % from merged sketches of {rows[3][3]:,} bytes, where"
        f" exact is {rows[0][3]:,}; the sample finds {rows[5][1]} of the {TOP} top pages, the sketches {rows[6][1]}.",
        figure=Curves(
            "Different visitors so far (exact and merged sketches lie on each other)",
            seen,
            "thousand visits",
            "different visitors",
        ),
    )


def plan_visits(random: Random) -> list[Visit]:
    """Plan visits: half of them to few pages, which many visit, half to any of many pages."""

    def choose_page() -> int:
        return int(random.paretovariate(0.7)) if random.random() < 0.5 else random.randrange(PAGES)

    return [(f"visitor {random.randrange(VISITORS)}", f"page {choose_page()}") for _ in range(VISITS)]


def measure_error(found: float, right: int) -> float:
    """By how many per cent a number is wrong."""
    return round(abs(found - right) * 100 / right, 1)


def _count(exact: Exact, sample: Sample, parts: Sequence[Sketches]) -> dict[str, float]:
    """How many different visitors, each way."""
    added = sum(count_visitors([each]) for each in parts)
    return {EXACT: len(exact.visitors), SAMPLED: sample.visitors, ADDED: added, MERGED: count_visitors(parts)}


def _describe(exact: Exact, sample: Sample, parts: Sequence[Sketches]) -> list[tuple[str, int, float, int]]:
    """For each question and way: the answer, by how many per cent it is off, and the bytes that were kept for it."""
    sampled = sum(sys.getsizeof(text) for visit in sample.visits for text in visit)
    sketched = sum(int(each.visitors.get_compact_serialization_bytes()) for each in parts)
    kept = (measure_bytes(exact.visitors), sampled, sketched, sketched)
    rows: list[tuple[str, int, float, int]] = [
        (f"different visitors: {way}", round(n), measure_error(n, len(exact.visitors)), size)
        for (way, n), size in zip(_count(exact, sample, parts).items(), kept, strict=True)
    ]
    page_bytes = sum(int(each.pages.get_serialized_size_bytes()) for each in parts)
    truth = list_top(exact.pages)
    for way, counts, size in (
        (EXACT, exact.pages, measure_bytes(exact.pages)),
        (SAMPLED, sample.pages, sampled),
        (MERGED, merge_pages(parts), page_bytes),
    ):
        errors = [measure_error(counts.get(page, 0), exact.pages[page]) for page in truth]
        found = len({*truth} & {*list_top(counts)})
        rows.append((f"of the {TOP} top pages: {way}", found, round(sum(errors) / TOP, 1), size))
    return rows
