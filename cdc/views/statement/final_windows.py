"""Windows that close: with `final_after: 10 minutes`, a window has what was committed until ten minutes after its end.

When a version of a row was committed is in the table's history. So the statement reads the rows from there: those that
were there when their window closed. Nothing depends on when, or in which batches, they were applied. (*Designing
Data-Intensive Applications*, "Knowing when you're ready": a straggler is dropped and counted, or it is a correction.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from cdc.core.errors import ConfigurationError
from cdc.core.table import Table, TableName
from cdc.sinks.lake.history.shape import (
    BATCH,
    CHAIN,
    CHANGE,
    COMMITTED_AT,
    COPY,
    ENDS,
    FURTHER,
    SEQUENCE,
    history_name,
)
from cdc.views.definition import ViewDefinition
from cdc.views.statement.parsing import list_base_tables, list_tables, parse_query, reading, refer_to
from cdc.views.statement.statement import Reference, quote, replace_places
from cdc.views.statement.time_windows import TimeWindow, find_windows, parse_duration, read_window, source_of

LATE: Final = "_late"
"""The suffix of the view that has what came too late."""
_REMEDY: Final = "correct its sql, or leave final_after out"


@dataclass(frozen=True, slots=True)
class ClosingWindow:
    """The window of a statement: its table's place in the text, the column of its time, and its durations."""

    reference: Reference
    column: str
    window: TimeWindow
    final_after: int

    @property
    def history(self) -> TableName:
        return history_name(self.reference.table)


def find_closing_window(view: ViewDefinition) -> ClosingWindow | None:
    """The window of a view that has `final_after`; None if it has not.

    Raises ConfigurationError for a statement without a window that can be closed.
    """
    if not view.final_after:
        return None
    label, final_after = str(view.name), parse_duration(view.final_after)
    if final_after is None:
        raise ConfigurationError(f"views.{label}: final_after: {view.final_after} is no duration", "as in: 10 minutes")
    with reading(label):
        return _find_closing_window(view, label, final_after)


def _find_closing_window(view: ViewDefinition, label: str, final_after: int) -> ClosingWindow:
    tree = parse_query(label, view.sql)
    calls = {call.sql(): call for query in tree.find_all(exp.Select) for call in find_windows(query)}
    if len(calls) != 1:
        raise ConfigurationError(f"views.{label}: final_after needs one window(), it has {len(calls)}", _REMEDY)
    [call] = calls.values()
    window, query = read_window(call), call.parent_select
    if window is None or window.overlapping > 1 or not isinstance(window.at, exp.Column) or query is None:
        raise ConfigurationError(f"views.{label}: final_after needs window(column, duration)", _REMEDY)
    source = source_of(query, window.at)
    if not isinstance(source, exp.Table) or all(source is not table for table in list_base_tables(tree)):
        raise ConfigurationError(
            f"views.{label}: final_after needs the time of a table, as in window(t.{window.at.name}, …)", _REMEDY
        )
    return ClosingWindow(refer_to(source), window.at.name, window, final_after)


def list_read_tables(view: ViewDefinition) -> list[TableName]:
    """The tables that a view reads, whether they exist or not. Raises ConfigurationError."""
    named, closing = list_tables(str(view.name), view.sql), find_closing_window(view)
    if closing is None:
        return named
    others = set(list_tables(str(view.name), replace_table(view.sql, closing, "(SELECT 1)")))
    return sorted({*others, closing.history})


def close_windows(view: ViewDefinition, tables: Mapping[TableName, Table]) -> str:
    """The statement that gives a view's rows: the user's, with a table as it was when each window closed.

    On the same lines as the user's.
    """
    closing = find_closing_window(view)
    if closing is None:
        return view.sql
    known = {str(name).lower(): name for name in tables}
    history = tables[known.get(str(closing.history).lower(), closing.history)]
    key = [column for column in history.key if column != SEQUENCE]
    left_out = ", ".join(column.name for column in FURTHER)
    in_time = select_in_time(closing, history.name, key, f"h.* EXCEPT ({left_out})")
    return replace_table(view.sql, closing, f"({in_time})")


def select_late(closing: ClosingWindow, history: TableName | None = None, columns: str = "") -> str:
    """The statement of the view that has what came too late: versions with their places in the history.

    `history`: an epoch of it that is read, of which `columns` are the table's as the view has them.
    """
    place = ", ".join(f"h.{column.name}" for column in FURTHER if column.name not in (BATCH, CHAIN))
    selected = f"{columns}, {place}" if columns else f"h.* EXCEPT ({BATCH}, {CHAIN})"
    return (
        f"SELECT {selected} FROM {_quote_table(history or closing.history)} AS h"  # noqa: S608
        f" WHERE h.{CHANGE} IN ('insert', 'update') AND {_micros(COMMITTED_AT, 'h')} >= {_closes(closing)}"
    )


def select_in_time(
    closing: ClosingWindow,
    history: TableName,
    key: Sequence[str],
    columns: str,
    bounds: tuple[int | None, int | None] = (None, None),
) -> str:
    """The rows `h` of a history, or of an epoch of it with this key, that were there when their window closed.

    `bounds`: of the windows that close later than the first, and not later than the second, in microseconds.
    """
    name = _quote_table(history)
    same = "".join(f"n.{quote(column)} = h.{quote(column)} AND " for column in key)
    ends, closes = ", ".join(f"'{end}'" for end in ENDS), _closes(closing)
    within = [f" AND {closes} {sign} {at}" for sign, at in zip((">", "<="), bounds, strict=True) if at is not None]
    return (
        f"SELECT {columns} FROM {name} AS h LEFT ANTI JOIN {name} AS n"  # noqa: S608
        f" ON {same}n.{SEQUENCE} > h.{SEQUENCE} AND {_is_in_time(closing, 'n')}"
        f" WHERE h.{CHANGE} NOT IN ({ends}) AND {_is_in_time(closing, 'h')}{''.join(within)}"
    )


def _is_in_time(closing: ClosingWindow, alias: str) -> str:
    """Whether a version was there when the window of `h` closed. Nobody knows since when a copied one is there."""
    return f"({alias}.{CHANGE} = '{COPY}' OR {_micros(COMMITTED_AT, alias)} < {_closes(closing)})"


def _closes(closing: ClosingWindow) -> str:
    """When the window of `h` closes, in microseconds."""
    at, window = _micros(quote(closing.column), "h"), closing.window
    return f"{at} - pmod({at} - {window.offset}, {window.size}) + {window.size + closing.final_after}"


def _micros(column: str, alias: str) -> str:
    return f"unix_micros(CAST({alias}.{column} AS TIMESTAMP))"


def replace_table(sql: str, closing: ClosingWindow, other: str) -> str:
    """The statement with something else in the place of the window's table."""
    place = closing.reference
    alias = "" if place.has_alias else f" AS {quote(place.table.table)}"
    return replace_places(sql, [(place.start, place.end, f"{other}{alias}")])


def _quote_table(name: TableName) -> str:
    return f"{quote(name.schema)}.{quote(name.table)}"
