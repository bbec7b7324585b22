"""Repairs of views: rows of some keys are computed anew, and written again, whatever is there."""

from collections.abc import Collection, Mapping
from typing import Protocol

import pyarrow as pa

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.position import Position
from cdc.core.table import Table, TableName
from cdc.views.plan import ViewPlan
from cdc.views.refresh.touched import TouchedKeys


class Repairs(Protocol):
    """Whoever asks for repairs."""

    def read(self) -> Mapping[TableName, pa.Table]:
        """The keys to be computed anew, by view."""

    def finish(self, views: Collection[TableName], position: Position) -> None:
        """What was read last for these views is done, by the cut at this position."""


class NoRepairs:
    """Nobody asks."""

    def read(self) -> Mapping[TableName, pa.Table]:
        return {}

    def finish(self, views: Collection[TableName], position: Position) -> None:
        """Nothing was asked."""


def choose_keys(keys: pa.Table | None, table: Table) -> pa.Table | None:
    """The keys in the view's types; None without any, or if it has other columns by now."""
    if keys is None or {*table.key} != {*keys.column_names}:
        return None
    schema = arrow_schema(table)
    return keys.select(table.key).cast(pa.schema([schema.field(name) for name in table.key]))


def to_touched(plan: ViewPlan, keys: pa.Table) -> list[TouchedKeys]:
    """The keys as if changes had reached them; none where the view's rows are found by no key."""
    groups = [group for group in plan.ways if group.anchors]
    if not groups:
        return []
    # each group leads to all rows of a key; by more of its columns, to fewer others
    group = max(groups, key=lambda each: len(each.anchors[0].key))
    by = {name.lower(): keys[name].combine_chunks() for name in keys.column_names}
    key = group.anchors[0].key
    return [TouchedKeys(group, key, [by[name.lower()] for name in key])]
