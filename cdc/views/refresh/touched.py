"""The keys of a view that changed rows can have reached."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from cdc.views.plan import AnchorGroup, Edge, ViewPlan
from cdc.views.refresh.rows import Tables, distinct_values, matching


@dataclass(frozen=True, slots=True)
class TouchedKeys:
    """Rows of a view to compute anew: those whose columns `key` have one of the combinations of `values`.

    `group`: the uses from which the rows that they are made of are found.
    """

    group: AnchorGroup
    key: tuple[str, ...]
    values: Sequence[pa.Array]

    def __len__(self) -> int:
        return len(self.values[0])


def find_touched_keys(plan: ViewPlan, tables: Tables) -> list[TouchedKeys]:
    """Find the keys that the changes have reached, in the state before them or after them.

    A row met others before or after the changes. Each of these was not changed, and is found at the cut, or was itself,
    and is among the old rows. So the rows at the cut and the old rows together hold both states.
    """
    found: dict[tuple[AnchorGroup, tuple[str, ...]], list[pa.Table]] = {}
    for alias, routes in plan.routes.items():
        changes = tables.changes.get(plan.uses[alias].table)
        if changes is None:
            continue
        for route in routes:
            rows = pa.concat_tables([changes.old, changes.new])
            for edge in route.edges:
                rows = _follow(plan, edge, rows, tables)
            # a null is a key like others: a group of rows, for instance
            values = distinct_values(rows, route.anchor.columns)
            if len(values[0]):
                parts = found.setdefault((route.group, route.anchor.key), [])
                parts.append(pa.Table.from_arrays(values, list(route.anchor.key)))
    return [
        # branches may give a key as integers of two widths
        TouchedKeys(group, key, distinct_values(pa.concat_tables(parts, promote_options="permissive"), key))
        for (group, key), parts in found.items()
    ]


def _follow(plan: ViewPlan, edge: Edge, rows: pa.Table, tables: Tables) -> pa.Table:
    """The rows beyond an edge, at the cut or before the changes."""
    values = distinct_values(rows, edge.left_columns, nulls=False)
    name = plan.uses[edge.right].table
    columns = plan.read_columns(name)
    found = tables.finders[name].find(edge.right_columns, values, plan.columns[name]).select(columns)
    changes = tables.changes.get(name)
    if changes is None:
        return found
    return pa.concat_tables([found, matching(changes.old.select(columns), edge.right_columns, values)])
