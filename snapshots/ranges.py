"""A table cut into ranges of pages, so that many tasks read it at once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from psycopg import sql

from cdc.core.table import TableName

PAGES_A_RANGE = 32_768
"""256 MiB: what one task reads and one file holds, at most."""


Pages = Mapping[TableName, int]
"""How many pages each part of a table has: itself, or its partitions."""


@dataclass(frozen=True, slots=True)
class PageRange:
    """Pages `start` up to `stop` of a part of a table, or to its end where `stop` is None."""

    part: TableName
    start: int
    stop: int | None

    @property
    def where(self) -> sql.Composed:
        """The condition that leaves only these pages, by the rows' places in the file.

        From Postgres 14 on the others are not read either ("TID Range Scan").
        """
        bounds = [sql.SQL("ctid >= {}::tid").format(sql.Literal(f"({self.start},0)"))]
        if self.stop is not None:
            bounds.append(sql.SQL("ctid < {}::tid").format(sql.Literal(f"({self.stop},0)")))
        return sql.SQL(" AND ").join(bounds)


def page_ranges(pages: Pages, parallel: int) -> list[tuple[PageRange, ...]]:
    """Ranges that tile the table, in shares: as many in each of `parallel` places, none above 256 MiB.

    Equal ones in equal numbers: a last one that is left over would be read alone. A share lies in one part of the table
    or in several; the last range of each part is open-ended.
    """
    total = sum(pages.values())
    rounds = -(-total // (PAGES_A_RANGE * parallel))
    wanted = max(min(rounds * parallel, total), 1)
    bounds = [total * n // wanted for n in range(wanted + 1)]
    # a part without pages has no rows, unless it is the only one and nobody knows its size
    shares = [tuple(_within(pages, low, high)) for low, high in pairwise(bounds)]
    return shares if total else [tuple(PageRange(part, 0, None) for part in pages)]


def _within(pages: Pages, low: int, high: int) -> Iterator[PageRange]:
    """What lies between two places of all parts' pages, counted one behind the other."""
    first = 0
    for part, count in pages.items():
        start, stop = max(low - first, 0), min(high - first, count)
        if start < stop:
            yield PageRange(part, start, stop if stop < count else None)
        first += count
