"""The rows of every table that some rows of a view are made of."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from cdc.core.table import TableName
from views.plan import Anchor, ViewPlan
from views.refresh.rows import ROW, Tables, distinct_values
from views.refresh.touched import TouchedKeys


def find_needed_rows(plan: ViewPlan, touched: Sequence[TouchedKeys], tables: Tables) -> dict[TableName, pa.Table]:
    """Find all rows that the touched rows of the view are made of; other rows may be among them.

    A row too many is harmless: it takes part only in rows of the view whose own rows are all here, or in rows that
    nobody asked for.
    """
    parts: dict[TableName, list[pa.Table]] = defaultdict(list)
    for keys in touched:
        for anchor in keys.group.anchors:
            for alias, rows in _gather(plan, anchor, keys, tables).items():
                parts[plan.uses[alias].table].append(rows)
    return {name: _without_duplicates(pa.concat_tables(rows)) for name, rows in parts.items()}


def _gather(plan: ViewPlan, anchor: Anchor, keys: TouchedKeys, tables: Tables) -> Mapping[str, pa.Table]:
    """The rows of each use, found from one anchor along the edges."""
    # an anchor of another branch may give fewer of the key's columns: more rows are found by these
    columns = [(column, keys.values[keys.key.index(name)]) for column, name in _shared(anchor, keys)]
    rows = {anchor.alias: _find(plan, anchor.alias, [c for c, _ in columns], [v for _, v in columns], tables)}
    waiting = deque([anchor.alias])
    while waiting:
        here = waiting.popleft()
        for edge in plan.edges_from(here):
            if edge.right not in rows:
                values = distinct_values(rows[here], edge.left_columns)
                rows[edge.right] = _find(plan, edge.right, edge.right_columns, values, tables)
                waiting.append(edge.right)
    return rows


def _shared(anchor: Anchor, keys: TouchedKeys) -> list[tuple[str, str]]:
    return [(column, name) for column, name in zip(anchor.columns, anchor.key, strict=True) if name in keys.key]


def _find(plan: ViewPlan, alias: str, columns: Sequence[str], values: Sequence[pa.Array], tables: Tables) -> pa.Table:
    name = plan.uses[alias].table
    return tables.finders[name].find(columns, values, plan.columns[name])


def _without_duplicates(rows: pa.Table) -> pa.Table:
    _, first = np.unique(np.asarray(rows[ROW]), return_index=True)
    return rows.take(pa.array(first)).drop_columns([ROW])
