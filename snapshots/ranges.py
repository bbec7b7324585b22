"""A table cut into ranges of pages, so that many tasks read it at once."""

from dataclasses import dataclass

from psycopg import sql

from cdc.core.table import Column, Kind, Table, TableName

LAST_YEAR = 294_247
"""Microseconds since 1970 end in it."""
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
        case Kind.JSON | Kind.UUID | Kind.NUMERIC | Kind.ENUM:
            return sql.SQL("{}::text AS {}").format(name, name)
        case Kind.DECIMAL:
            return sql.SQL("{}::text AS {}").format(_unless(column, sql.SQL("{} = 'NaN'"), "numeric"), name)
        case Kind.TIME:
            return sql.SQL("to_char({}, 'HH24:MI:SS.US') AS {}").format(name, name)
        case Kind.DATE:
            return sql.SQL("{} AS {}").format(_unless(column, sql.SQL("NOT isfinite({})"), "date"), name)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            beyond = sql.SQL(f"{{0}} >= '{LAST_YEAR}-01-01' OR NOT isfinite({{0}})")
            return sql.SQL("{} AS {}").format(_unless(column, beyond, str(column.kind)), name)
        case _:
            return sql.SQL("{} AS {}").format(name, name)


def _unless(column: Column, unfit: sql.SQL, type_name: str) -> sql.Composed:
    """The column; a value that followers cannot hold ends the query with a line that names the column.

    The cast fails by its text; with an empty part of the value in it, no planner evaluates it beforehand.
    """
    name = sql.Identifier(column.name)
    told = sql.Literal(f"column {column.name} holds a value that followers cannot hold yet: infinity, NaN, or too late")
    failing = sql.SQL("({} || left({}::text, 0))::{}").format(told, name, sql.SQL(type_name))
    return sql.SQL("CASE WHEN {} THEN {} ELSE {} END").format(unfit.format(name), failing, name)
