"""Derived columns of rows (`views.statement.analysis.computed_columns`), computed by DuckDB."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import duckdb
import pyarrow as pa

from cdc.columns.types.arrow_types import arrow_type
from cdc.core.table import TableName
from cdc.sinks.lake.table.lookup import ComputedColumn
from cdc.sinks.lake.table.row_changes import RowChanges
from cdc.views.plan import DerivedColumn
from cdc.views.refresh.evaluate import Evaluator
from cdc.views.refresh.rows import RowFinder, Tables
from cdc.views.statement.dialect.statements import TABLE


class NotDerivedError(Exception):
    """DuckDB cannot compute a derived column of some row, where Spark may: the whole view is computed instead."""


@dataclass(slots=True)
class ComputedByDuckDB:
    """A derived column as a `ComputedColumn`; safe in any thread."""

    derived: DerivedColumn
    _evaluator: Evaluator = field(default_factory=Evaluator)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def inputs(self) -> Sequence[str]:
        return self.derived.inputs

    def compute(self, rows: pa.Table) -> pa.Array:
        """The column of these rows. Raises NotDerivedError."""
        try:
            with self._lock:
                found = self._evaluator.evaluate(self.derived.sql, {TABLE: rows.select(list(self.inputs))})
        except duckdb.Error as error:
            raise NotDerivedError(f"{self.derived.column.name}: {error}") from error
        return found.column(0).cast(arrow_type(self.derived.column)).combine_chunks()


class ComputingFinder(RowFinder, Protocol):
    """Finds rows also by columns that are computed from theirs: a `TableLookup`."""

    computed: dict[str, ComputedColumn]


@dataclass(frozen=True, slots=True)
class DerivingFinder:
    """A table's rows with derived columns, which may also be what they are found by."""

    lookup: RowFinder
    columns: Sequence[ComputedByDuckDB]

    def find(self, columns: Sequence[str], values: Sequence[pa.Array], names: Sequence[str]) -> pa.Table:
        """As `RowFinder.find`; all derived columns come with the rows."""
        return add_derived(self.lookup.find(columns, values, names), self.columns)


def add_derived(rows: pa.Table, columns: Sequence[ComputedByDuckDB]) -> pa.Table:
    for each in columns:
        rows = rows.append_column(each.derived.column.name, each.compute(rows))
    return rows


@dataclass(frozen=True, slots=True)
class DerivedTables:
    """The derived columns of a view, per table."""

    columns: Mapping[TableName, Sequence[ComputedByDuckDB]]

    @classmethod
    def of(cls, derived: Mapping[TableName, Sequence[DerivedColumn]]) -> "DerivedTables":
        return cls({name: [ComputedByDuckDB(each) for each in found] for name, found in derived.items() if found})

    def attach(self, lookups: Mapping[TableName, ComputingFinder], changes: Mapping[TableName, RowChanges]) -> Tables:
        """The tables of a refresh, whose rows have derived columns. Raises NotDerivedError."""
        finders: dict[TableName, RowFinder] = dict(lookups)
        changed = dict(changes)
        for name, columns in self.columns.items():
            if name in lookups:
                lookups[name].computed |= {each.derived.column.name: each for each in columns}
                finders[name] = DerivingFinder(lookups[name], columns)
            if name in changes:
                old, new = (add_derived(side, columns) for side in (changes[name].old, changes[name].new))
                changed[name] = RowChanges(old, new)
        return Tables(finders, changed)
