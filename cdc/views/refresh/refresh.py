"""Compute the touched rows of a view anew, and find which of them differ from its present ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from cdc.columns.rows.join_fingerprints import are_among, join_bits
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.columns.values.arrow_types import arrow_schema
from cdc.core.table import Table, TableName
from cdc.views.plan import ViewPlan
from cdc.views.refresh.lake_tables import TooManyRowsError
from cdc.views.refresh.needed import find_needed_rows
from cdc.views.refresh.row_hashes import compare, hashed_schema
from cdc.views.refresh.rows import Tables
from cdc.views.refresh.sorted_lists import sort_lists
from cdc.views.refresh.touched import TouchedKeys, find_touched_keys
from cdc.views.refresh.write_rows import ViewChanges
from cdc.views.statement.list_order import ListPaths

MAX_TOUCHED_KEYS: Final = 100_000
"""Keys that one refresh computes anew; for more, the whole view is computed, by Spark."""


class RunStatement(Protocol):
    """Runs a view's statement on some rows of its tables; returns columns in the statement's order."""

    def __call__(self, rows: Mapping[TableName, pa.Table]) -> pa.Table: ...


@dataclass(frozen=True, slots=True)
class ViewShape:
    """What a refresh knows of a view: its columns and key, its plan, and the lists in it to be sorted."""

    table: Table
    plan: ViewPlan
    unordered: Mapping[str, ListPaths]

    def conform(self, result: pa.Table) -> pa.Table:
        """A statement's result in the view's types, with its lists sorted. Columns go by place."""
        schema = arrow_schema(self.table)
        columns = [result.column(at).cast(field.type) for at, field in enumerate(schema)]
        return sort_lists(pa.Table.from_arrays(columns, schema=schema), self.table, self.unordered)


class FindRows(Protocol):
    """Finds the view's present rows whose columns have one of these combinations of values, perhaps with others.

    As keys and hashes (`hashed_schema`).
    """

    def __call__(self, columns: Sequence[str], values: Sequence[pa.Array]) -> pa.Table: ...


@dataclass(frozen=True, slots=True)
class ViewEngine:
    """Runs a view's statement on some rows, and finds its present rows."""

    run: RunStatement
    find: FindRows


def refresh(
    shape: ViewShape,
    tables: Tables,
    engine: ViewEngine,
) -> ViewChanges | None:
    """Compute what changes of the tables do to a view; None if they touch no row of it.

    Raises ViewStoppedError when the key is not one, TooManyRowsError when they touch too many.
    """
    touched = [keys for keys in find_touched_keys(shape.plan, tables) if len(keys)]
    if not touched:
        return None
    if sum(map(len, touched)) > MAX_TOUCHED_KEYS:
        raise TooManyRowsError
    needed = find_needed_rows(shape.plan, touched, tables)
    # without derived columns
    rows = {name: found.select(shape.plan.columns[name]) for name, found in needed.items()}
    result = shape.conform(engine.run(rows))
    touched = [_name_as_stored(keys, shape.table) for keys in touched]
    stored = [engine.find(keys.key, keys.values) for keys in touched]
    old = _drop_repeated(pa.concat_tables([hashed_schema(shape.table).empty_table(), *stored]), shape.table)
    return compare(shape.table, _select_touched(old, touched), _select_touched(result, touched))


def _name_as_stored(keys: TouchedKeys, table: Table) -> TouchedKeys:
    """The keys by the view's own names: in a statement, letters have no case."""
    names = {name.lower(): name for name in table.key}
    return replace(keys, key=tuple(names[name.lower()] for name in keys.key))


def _select_touched(rows: pa.Table, touched: Sequence[TouchedKeys]) -> pa.Table:
    """The rows whose key any of these has."""
    if not rows.num_rows:
        return rows
    masks = [are_among(join_bits([rows[name] for name in keys.key]), join_bits(keys.values)) for keys in touched]
    return rows.filter(pa.array(np.logical_or.reduce(masks)))


def _drop_repeated(rows: pa.Table, table: Table) -> pa.Table:
    """Each row once: two sets of keys may have found the same."""
    keys = row_bits(rows, table)
    order = keys.order()
    return rows.take(pa.array(np.sort(order[keys.take(order).begins()])))
