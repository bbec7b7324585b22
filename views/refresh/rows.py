"""The tables that a view is made of, as its refresh reads them: rows at one cut by values, and what changed before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from cdc.columns.rows.join_fingerprints import are_among, has_null, join_bits
from cdc.core.table import TableName
from sinks.lake.table.lookup import ROW
from sinks.lake.table.row_changes import RowChanges

__all__ = ["ROW", "RowFinder", "Tables", "distinct_values", "matching"]


class RowFinder(Protocol):
    """The rows of one table at one cut."""

    def find(self, columns: Sequence[str], values: Sequence[pa.Array], names: Sequence[str]) -> pa.Table:
        """The columns `names` of the rows whose `columns` have one of these combinations of values, and `ROW`."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a view: `finders` read them at the cut, `changes` are those since the view's last cut."""

    finders: Mapping[TableName, RowFinder]
    changes: Mapping[TableName, RowChanges]


def matching(rows: pa.Table, columns: Sequence[str], values: Sequence[pa.Array]) -> pa.Table:
    """The rows whose columns have one of these combinations of values; null equals nothing."""
    if not rows.num_rows:
        return rows
    mine = [rows[name] for name in columns]
    found = are_among(join_bits(mine), join_bits(values)) & ~has_null(mine)
    return rows.filter(pa.array(found))


def distinct_values(rows: pa.Table, columns: Sequence[str]) -> list[pa.Array]:
    """The distinct combinations of values in these columns, without nulls, as a list of columns."""
    mine = [rows[name].combine_chunks() for name in columns]
    keys = join_bits(mine)
    order = keys.order()
    first = order[keys.take(order).begins()]
    chosen = first[~has_null(mine)[first]]
    return [array.take(pa.array(chosen)) for array in mine]
