"""Windows that close over all epochs of a history: each has its rows from the epoch that is kept when it closes.

What an epoch begins with came with a copy, and nobody knows since when it is there. A window that closed before that
has its rows in the epoch before, and a later one changes it no more, whatever has become of its key or its types.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from sqlglot import exp

from cdc.columns.types.spark_types import spark_type
from cdc.core.table import Column, TableName
from cdc.sinks.lake.history.epochs import Epoch
from cdc.sinks.lake.history.shape import tracked_columns
from cdc.views.definition import ViewDefinition
from cdc.views.statement.final_windows import (
    LATE,
    ClosingWindow,
    find_closing_window,
    replace_table,
    select_in_time,
    select_late,
)
from cdc.views.statement.parsing import parse_query
from cdc.views.statement.statement import quote

FindEpochs = Callable[[TableName], Sequence[Epoch]]
"""The epochs of a table's history, in order."""
_MICROS: Final = 1000
"""In a millisecond."""


def define_over_epochs(views: Sequence[ViewDefinition], find_epochs: FindEpochs) -> list[ViewDefinition]:
    """The views as they are computed: with all epochs, in those whose windows close and those of what came too late."""
    defined = {view.name: view for view in views}
    for view in views:
        closing = _find_closing(view)
        epochs = find_epochs(closing.reference.table) if closing else []
        if closing and len(epochs) > 1:
            sql = replace_table(view.sql, closing, f"({' UNION ALL '.join(_select_windows(view, closing, epochs))})")
            defined[view.name] = replace(view, sql=sql, final_after="")
            late = defined.get(TableName(view.name.schema, f"{view.name.table}{LATE}"))
            if late and late.sql == select_late(closing):
                defined[late.name] = replace(late, sql=" UNION ALL ".join(_select_all_late(closing, epochs)))
    return list(defined.values())


def _find_closing(view: ViewDefinition) -> ClosingWindow | None:
    # told where the statement itself is checked
    with suppress(Exception):
        return find_closing_window(view)
    return None


def _select_windows(view: ViewDefinition, closing: ClosingWindow, epochs: Sequence[Epoch]) -> Iterator[str]:
    # a column that nobody reads may have become what it cannot be cast to
    tree = parse_query(str(view.name), view.sql)
    outputs = [column for column in _present_columns(epochs) if _may_read(tree, column)]
    for epoch, successor in zip_longest(epochs, epochs[1:]):
        bounds = (_begin_micros(epoch) if epoch.number > 1 else None, _begin_micros(successor) if successor else None)
        key = epoch.opened.facts.shapes[-1].key if epoch.opened else []
        columns = ", ".join(_convert(epoch, column) for column in outputs)
        yield select_in_time(closing, epoch.name, key, columns, bounds)


def _may_read(tree: exp.Query, column: Column) -> bool:
    has_star = any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
    is_any = has_star or any(join.method == "NATURAL" for join in tree.find_all(exp.Join))
    return is_any or any(each.name.lower() == column.name.lower() for each in tree.find_all(exp.Identifier))


def _select_all_late(closing: ClosingWindow, epochs: Sequence[Epoch]) -> Iterator[str]:
    outputs = _present_columns(epochs)
    for epoch in epochs:
        yield select_late(closing, epoch.name, ", ".join(_convert(epoch, column) for column in outputs))


def _present_columns(epochs: Sequence[Epoch]) -> Sequence[Column]:
    last = next((epoch.opened for epoch in reversed(epochs) if epoch.opened), None)
    return tracked_columns(last.table) if last else ()


def _convert(epoch: Epoch, column: Column) -> str:
    """The column as the last epoch has it. An epoch that cannot be read has none; what reads it waits for it."""
    had = tracked_columns(epoch.opened.table) if epoch.opened else ()
    known, name = {each.name: each for each in had}.get(column.name), quote(column.name)
    kind = spark_type(column).simpleString()
    if known is None:
        return f"NULL AS {name}"
    return f"h.{name}" if spark_type(known) == spark_type(column) else f"CAST(h.{name} AS {kind}) AS {name}"


def _begin_micros(epoch: Epoch) -> int:
    return epoch.opened.facts.succeeds.ms * _MICROS if epoch.opened else 0
