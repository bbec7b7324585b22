"""Compute the touched rows of a view anew, and find which of them differ from its present ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from cdc.columns.rows.join_fingerprints import are_among, join_bits
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Table, TableName
from cdc.sinks.lake.table.bounds import TooManyRowsError
from cdc.views.plan import ViewPlan
from cdc.views.refresh.needed import find_needed_rows
from cdc.views.refresh.row_hashes import compare, hashed_schema
from cdc.views.refresh.rows import Tables
from cdc.views.refresh.sorted_lists import sort_lists
from cdc.views.refresh.touched import TouchedKeys, find_touched_keys
from cdc.views.refresh.write_rows import ViewChanges
from cdc.views.statement.analysis.list_order import ListPaths


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
    """Runs a view's statement on some rows, and finds its present ones."""

    run: RunStatement
    find: FindRows


def refresh(
    shape: ViewShape,
    tables: Tables,
    engine: ViewEngine,
    keys_at_once: int,
    most_keys: int,
    asked: Sequence[TouchedKeys] = (),
) -> Iterator[ViewChanges]:
    """Compute what changes of the tables do to a view: nothing if they touch no row of it, else a part at a time.

    `asked`: keys that are computed anew besides. A part is written before the next is asked for, which may have some of
    its keys, too. Raises ViewStoppedError when the key is not one, TooManyRowsError for more touched keys than
    `most_keys`, and when they need too many rows.
    """
    touched = [keys for keys in (*find_touched_keys(shape.plan, tables), *asked) if len(keys)]
    total = sum(map(len, touched))
    if total > most_keys:
        raise TooManyRowsError(f"{total:,} of its rows are touched at once")
    if total <= keys_at_once:
        parts = [touched] if touched else []
    else:
        parts = [[part] for keys in touched for part in _split(keys, keys_at_once)]
    for part in parts:
        yield _refresh_keys(shape, part, tables, engine)


def _split(keys: TouchedKeys, most: int) -> Iterator[TouchedKeys]:
    for start in range(0, len(keys), most):
        part = pa.array(range(start, min(start + most, len(keys))))
        yield replace(keys, values=[values.take(part) for values in keys.values])


def _refresh_keys(shape: ViewShape, touched: Sequence[TouchedKeys], tables: Tables, engine: ViewEngine) -> ViewChanges:
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
