"""A table cut into ranges of pages, so that many tasks read it at once."""

from dataclasses import dataclass

from psycopg import sql

from cdc.core.table import Column, Kind, Table, TableName

PAGES_A_RANGE = 16_384
"""128 MiB: what one task reads and one file holds."""


@dataclass(frozen=True, slots=True)
class PageRange:
    """Pages `start` up to `stop` of a table, or to its end where `stop` is None."""

    table: TableName
    start: int
    stop: int | None


def page_ranges(table: TableName, pages: int, parallel: int) -> list[PageRange]:
    """Ranges that tile the table: enough for `parallel` tasks, none above 128 MiB; the last is open-ended."""
    wanted = max(-(-pages // PAGES_A_RANGE), min(parallel, pages), 1)
    bounds = [pages * n // wanted for n in range(wanted)]
    return [PageRange(table, start, stop) for start, stop in zip(bounds, [*bounds[1:], None], strict=True)]


def query(table: Table, pages: PageRange) -> sql.Composed:
    """The SELECT of one range, in the table's column order and in the forms that the followers hold."""
    columns = sql.SQL(", ").join(_selected(column) for column in table.columns)
    name = sql.Identifier(table.name.schema, table.name.table)
    bounds = [sql.SQL("ctid >= {}::tid").format(sql.Literal(f"({pages.start},0)"))]
    if pages.stop is not None:
        bounds.append(sql.SQL("ctid < {}::tid").format(sql.Literal(f"({pages.stop},0)")))
    return sql.SQL("SELECT {} FROM ONLY {} WHERE {}").format(columns, name, sql.SQL(" AND ").join(bounds))


def _selected(column: Column) -> sql.Composed:
    name = sql.Identifier(column.name)
    match column.kind:
        case Kind.JSON | Kind.UUID | Kind.NUMERIC | Kind.DECIMAL | Kind.ENUM:
            return sql.SQL("{}::text AS {}").format(name, name)
        case Kind.TIME:
            return sql.SQL("to_char({}, 'HH24:MI:SS.US') AS {}").format(name, name)
        case _:
            return sql.SQL("{} AS {}").format(name, name)
