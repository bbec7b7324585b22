"""The rows of every table that some rows of a view are made of."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from cdc.core.table import TableName
from cdc.views.plan import Anchor, Link, ViewPlan
from cdc.views.refresh.rows import ROW, Tables, distinct_values
from cdc.views.refresh.touched import TouchedKeys


def find_needed_rows(plan: ViewPlan, touched: Sequence[TouchedKeys], tables: Tables) -> dict[TableName, pa.Table]:
    """Find all rows that the touched rows of the view are made of; other rows may be among them.

    A row too many is harmless: it takes part only in rows of the view whose own rows are all here, or in rows that
    nobody asked for.
    """
    parts: dict[TableName, list[pa.Table]] = defaultdict(list)
    for keys in touched:
        for alias, rows in _gather(plan, keys, tables).items():
            parts[plan.uses[alias].table].append(rows)
    return {name: _without_duplicates(pa.concat_tables(rows)).drop_columns([ROW]) for name, rows in parts.items()}


def _gather(plan: ViewPlan, keys: TouchedKeys, tables: Tables) -> Mapping[str, pa.Table]:
    """The rows of each use, from the anchors along the links: those before a link are there when it is followed."""
    rows = {anchor.alias: _find_anchored(plan, anchor, keys, tables) for anchor in keys.group.anchors}
    for link in plan.ways[keys.group]:
        rows[link.use] = _follow(plan, link, rows, tables)
    return rows


def _find_anchored(plan: ViewPlan, anchor: Anchor, keys: TouchedKeys, tables: Tables) -> pa.Table:
    # an anchor of another branch may give fewer of the key's columns: more rows are found by these
    shared = [(column, name) for column, name in zip(anchor.columns, anchor.key, strict=True) if name in keys.key]
    values = [keys.values[keys.key.index(name)] for _, name in shared]
    return _find(plan, anchor.alias, [column for column, _ in shared], values, tables)


def _follow(plan: ViewPlan, link: Link, rows: Mapping[str, pa.Table], tables: Tables) -> pa.Table:
    found = list[pa.Table]()
    for edge in link.edges:
        values = distinct_values(rows[edge.right], edge.right_columns, nulls=False)
        found.append(_find(plan, link.use, edge.left_columns, values, tables))
    return _without_duplicates(pa.concat_tables(found))


def _find(plan: ViewPlan, alias: str, columns: Sequence[str], values: Sequence[pa.Array], tables: Tables) -> pa.Table:
    name = plan.uses[alias].table
    return tables.finders[name].find(columns, values, plan.columns[name])


def _without_duplicates(rows: pa.Table) -> pa.Table:
    _, first = np.unique(np.asarray(rows[ROW]), return_index=True)
    return rows.take(pa.array(first))
