"""A table cut into ranges of pages, so that many tasks read it at once."""

from dataclasses import dataclass

from psycopg import sql

from cdc.core.table import TableName

PAGES_A_RANGE = 16_384
"""128 MiB: what one task reads and one file holds."""


@dataclass(frozen=True, slots=True)
class PageRange:
    """Pages `start` up to `stop` of a table, or to its end where `stop` is None."""

    table: TableName
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


def page_ranges(table: TableName, pages: int, parallel: int) -> list[PageRange]:
    """Ranges that tile the table: enough for `parallel` tasks, none above 128 MiB; the last is open-ended."""
    wanted = max(-(-pages // PAGES_A_RANGE), min(parallel, pages), 1)
    bounds = [pages * n // wanted for n in range(wanted)]
    return [PageRange(table, start, stop) for start, stop in zip(bounds, [*bounds[1:], None], strict=True)]
