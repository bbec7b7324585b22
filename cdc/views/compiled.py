"""One view, compiled against its tables as they are at a cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from cdc.columns.rows.row_fingerprints import row_bits
from cdc.core.table import Column, Table, TableName
from cdc.sinks.lake.table.indexed_rows import sort_by_file
from cdc.sinks.lake.table.lookup import ROW, TableLookup
from cdc.sinks.lake.table.writer import TableWriter
from cdc.views.definition import ViewDefinition
from cdc.views.plan import ViewPlan
from cdc.views.refresh.derived import DerivedTables
from cdc.views.refresh.refresh import ViewShape
from cdc.views.refresh.row_hashes import hashed_schema
from cdc.views.statement.analysis.determinism import check_deterministic
from cdc.views.statement.analysis.list_order import ListPaths, find_unordered_lists
from cdc.views.statement.analysis.provenance import Provenance
from cdc.views.statement.dialect.statements import DuckStatement, compute_in_duckdb, write_statement
from cdc.views.statement.dialect.values import Unproven
from cdc.views.statement.final_windows import close_windows
from cdc.views.statement.parsing import check_key, check_view, parse_statement, reading
from cdc.views.statement.planning import plan_view
from cdc.views.statement.statement import Statement
from cdc.views.statement.tree.nodes import Output
from cdc.views.statement.tree.spelling import name_output


@dataclass(frozen=True, slots=True)
class CompiledView:
    """A definition with its statement read: its plan, the lists to be sorted, and how few rows are evaluated.

    `duckdb`: the statement in DuckDB's dialect, over tables of these `names`, if it is proven to give there what it
    gives in Spark; otherwise the expressions that are not.
    """

    definition: ViewDefinition
    statement: Statement
    plan: ViewPlan
    unordered: Mapping[str, ListPaths]
    duckdb: DuckStatement | Sequence[Unproven]
    derived: DerivedTables
    names: Mapping[TableName, str]

    @property
    def outputs(self) -> Sequence[Output]:
        return self.statement.tree.root.outputs

    @property
    def tables(self) -> frozenset[TableName]:
        return self.statement.table_names

    def shape(self, table: Table) -> ViewShape:
        # by place: Spark has names of its own for outputs without one
        pairs = zip(self.outputs, table.column_names, strict=False)
        named = {output.name.lower(): column.lower() for output, column in pairs}
        return ViewShape(table, self.plan, {named.get(name, name): paths for name, paths in self.unordered.items()})

    def has_columns_of(self, table: Table) -> bool:
        """Whether the statement still gives the columns that the view was filled with: a star may give more now."""
        if any(output.node.is_star for output in self.outputs):
            return True
        outputs, columns = [name_output(output.node) for output in self.outputs], table.column_names
        pairs = zip(outputs, columns, strict=False)
        return len(outputs) == len(columns) and all(name in (None, column.lower()) for name, column in pairs)

    def sources(self) -> Mapping[str, Column]:
        """The columns of the result that are columns of a table, unchanged; by name in lower case."""
        # no engine is asked: a computed column is none of a table
        provenance, root = Provenance(self.statement), self.statement.tree.root
        found = {output.name: provenance.output(root, output.name) for output in self.outputs}
        single = {name: next(iter(sources)) for name, sources in found.items() if len(sources) == 1}
        return {name.lower(): self.statement.column(*source) for name, source in single.items()}


def compile_view(definition: ViewDefinition, tables: Mapping[TableName, Table]) -> CompiledView:
    """Read a view's statement over these tables; raises ConfigurationError with the place of an error."""
    label = str(definition.name)
    with reading(label):
        return _compile(label, definition, tables)


def _compile(label: str, definition: ViewDefinition, tables: Mapping[TableName, Table]) -> CompiledView:
    check_view(label, definition.sql, definition.key)
    statement = parse_statement(label, close_windows(definition, tables), tables)
    check_key(label, definition.key, [output.node for output in statement.tree.root.outputs])
    check_deterministic(label, statement)
    names = {name: f"t{number}" for number, name in enumerate(sorted(statement.table_names))}
    plan = plan_view(statement, [name.lower() for name in definition.key], compute_in_duckdb)
    unordered = find_unordered_lists(label, statement.tree)
    return CompiledView(
        definition, statement, plan, unordered, write_statement(statement, names), DerivedTables.of(plan.derived), names
    )


@dataclass(slots=True)
class PresentRows:
    """The rows that a view has now, found by columns of its key."""

    writer: TableWriter
    lookup: TableLookup
    """For a part of the key."""

    def find(self, columns: Sequence[str], values: Sequence[pa.Array]) -> pa.Table:
        """The rows whose columns have one of these combinations of values, perhaps with others, as keys and hashes."""
        # compaction, in another thread, moves rows between files
        with self.writer.lock:
            return self._find(columns, values)

    def _find(self, columns: Sequence[str], values: Sequence[pa.Array]) -> pa.Table:
        table, writer = self.writer.table, self.writer
        schema = hashed_schema(table)
        if {*columns} != {*table.key}:
            self.lookup.stand_at(writer.snapshot)
            # by their whole keys then, since the copies of rows are the writer's
            found = self.lookup.find(columns, values, table.key).drop_columns([ROW])
            return self._find(table.key, [found[name].combine_chunks() for name in table.key])
        rows = [values[columns.index(name)].cast(schema.field(name).type) for name in table.key]
        # a null is in no key of a stored row
        asked = pa.Table.from_arrays(rows, list(table.key)).drop_null()
        writer.rows.index_new_files()
        return writer.rows.read(sort_by_file(writer.rows.find_live(row_bits(asked, table))), schema)
