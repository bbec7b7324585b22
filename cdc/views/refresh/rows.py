"""The tables that a view is made of, as its refresh reads them: rows at one cut by values, and the changes before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from cdc.columns.rows.join_fingerprints import are_among, has_null, join_bits
from cdc.core.table import TableName
from cdc.sinks.lake.table.lookup import ROW
from cdc.sinks.lake.table.row_changes import RowChanges

__all__ = ["ROW", "RowFinder", "Tables", "distinct_values", "matching"]


class RowFinder(Protocol):
    """The rows of one table at one cut."""

    def find(self, columns: Sequence[str], values: Sequence[pa.Array], names: Sequence[str]) -> pa.Table:
        """The columns `names` of the rows whose `columns` have one of these combinations of values, and `ROW`.

        Other rows may be among them. Where a combination has a null, all rows with a null in these columns are found.
        """


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a view: `finders` read them at the cut, `changes` are those since the view's last cut."""

    finders: Mapping[TableName, RowFinder]
    changes: Mapping[TableName, RowChanges]


def matching(rows: pa.Table, columns: Sequence[str], values: Sequence[pa.Array]) -> pa.Table:
    """The rows whose columns have one of these combinations of values. Rows with a null match all others with one."""
    if not rows.num_rows:
        return rows
    return rows.filter(pa.array(are_among(join_bits([rows[name] for name in columns]), join_bits(values))))


def distinct_values(rows: pa.Table, columns: Sequence[str], *, nulls: bool = True) -> list[pa.Array]:
    """The distinct combinations of values in these columns, as a list of columns; `nulls`: with nulls among them.

    A join is followed without them, since null equals nothing.
    """
    mine = [rows[name].combine_chunks() for name in columns]
    keys = join_bits(mine)
    order = keys.order()
    first = order[keys.take(order).begins()]
    chosen = first if nulls else first[~has_null(mine)[first]]
    return [array.take(pa.array(chosen)) for array in mine]
