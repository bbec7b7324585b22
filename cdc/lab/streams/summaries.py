"""What is kept of visits: everything, a sample, or sketches."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from random import Random
from typing import Any, Final

from datasketches import frequent_items_error_type, frequent_strings_sketch, hll_sketch, hll_union, tgt_hll_type

TOP: Final = 10
SAMPLE: Final = 100
"""One of so many visits is in the sample."""
VISITOR_BITS: Final = 12
"""2 to this are the registers of the sketch of visitors; of four bits each."""
PAGE_BITS: Final = 10
"""2 to this is the room of the sketch of pages, of which it uses three quarters."""

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

    @property
    def visitor_bytes(self) -> int:
        return sys.getsizeof(self.visitors) + sum(map(sys.getsizeof, self.visitors))

    @property
    def page_bytes(self) -> int:
        return sys.getsizeof(self.pages) + sum(map(sys.getsizeof, self.pages))


class Sample:
    """A visit now and then; what is counted in it, counts for all the others that are not in it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._visits: list[Visit] = []

    def add(self, visits: Iterable[Visit]) -> None:
        self._visits += [visit for visit in visits if self._random.randrange(SAMPLE) == 0]

    @property
    def visitors(self) -> int:
        return SAMPLE * len({visitor for visitor, _ in self._visits})

    @property
    def pages(self) -> dict[str, int]:
        return {page: SAMPLE * count for page, count in Counter(page for _, page in self._visits).items()}

    @property
    def bytes(self) -> int:
        return sum(sys.getsizeof(text) for visit in self._visits for text in visit)


class Sketches:
    """HyperLogLog of the visitors, and the frequent items of the pages."""

    def __init__(self) -> None:
        self.visitors: Any = hll_sketch(VISITOR_BITS, tgt_hll_type.HLL_4)
        self.pages: Any = frequent_strings_sketch(PAGE_BITS)

    def add(self, visits: Iterable[Visit]) -> None:
        for visitor, page in visits:
            self.visitors.update(visitor)
            self.pages.update(page)

    @property
    def visitor_bytes(self) -> int:
        return int(self.visitors.get_compact_serialization_bytes())

    @property
    def page_bytes(self) -> int:
        return int(self.pages.get_serialized_size_bytes())


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
    """The pages with the most visits."""
    return nlargest(TOP, counts, key=lambda page: (counts[page], page))
