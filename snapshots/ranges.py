"""Cuts a table into ranges of pages, for parallel tasks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from psycopg import sql

from cdc.core.table import TableName

PAGES_A_RANGE = 32_768
"""256 MiB: the most that one task reads into one file."""


Pages = Mapping[TableName, int]
"""The table itself, or each of its partitions → number of pages."""


@dataclass(frozen=True, slots=True)
class PageRange:
    """Pages start ≤ page < stop of a table or partition; to its end if `stop` is None."""

    part: TableName
    start: int
    stop: int | None

    @property
    def where(self) -> sql.Composed:
        """The condition on ctid that selects these pages."""
        # since Postgres 14 a "TID Range Scan" reads no other pages
        bounds = [sql.SQL("ctid >= {}::tid").format(sql.Literal(f"({self.start},0)"))]
        if self.stop is not None:
            bounds.append(sql.SQL("ctid < {}::tid").format(sql.Literal(f"({self.stop},0)")))
        return sql.SQL(" AND ").join(bounds)


def page_ranges(pages: Pages, parallel: int) -> list[tuple[PageRange, ...]]:
    """Cut the table into equal shares of at most 256 MiB; their number is a multiple of `parallel`.

    A share has ranges of one partition or of several; the last range of each partition is open-ended.
    """
    total = sum(pages.values())
    # nine shares on two cores left the last one to be read alone: a tenth of the copy's time
    rounds = -(-total // (PAGES_A_RANGE * parallel))
    wanted = max(min(rounds * parallel, total), 1)
    bounds = [total * n // wanted for n in range(wanted + 1)]
    # a partition without pages has no rows; a table without any page is read whole
    shares = [tuple(_within(pages, low, high)) for low, high in pairwise(bounds)]
    return shares if total else [tuple(PageRange(part, 0, None) for part in pages)]


def _within(pages: Pages, low: int, high: int) -> Iterator[PageRange]:
    """Cut the pages low ≤ page < high, counted through all partitions, into ranges."""
    first = 0
    for part, count in pages.items():
        start, stop = max(low - first, 0), min(high - first, count)
        if start < stop:
            yield PageRange(part, start, stop if stop < count else None)
        first += count
