"""One row of a table in the views over it: the rows that are found by its own columns, as far as these say which."""

import json
from collections.abc import Iterator, Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.rows.documents import documents
from cdc.config.settings import VIEWS
from cdc.core.errors import CdcError
from cdc.core.table import Table, TableName
from cdc.core.text.plural import format_count
from cdc.run.pipeline import Pipeline
from cdc.run.trace.sighting import PlaceSighting, Row
from cdc.run.views.kept_views import compile_present_view, describe_views, find_views_over
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.layout import open_table
from cdc.views.compiled import CompiledView
from cdc.views.statement.analysis.provenance import Provenance

Columns = Mapping[str, str]
"""Column of a view → the column of the table that it is, unchanged."""


def find_in_views(pipeline: Pipeline, table: Table, row: pa.RecordBatch | None) -> Iterator[PlaceSighting]:
    """What each view over the table has of a row of it, or what cannot be known. `row`: the source's."""
    if not pipeline.settings.views:
        return
    over = find_views_over(pipeline, [table.name])
    for view in describe_views(pipeline):
        if view.name in over:
            try:
                yield _find_in_view(pipeline, table, row, view.name, view.state)
            except CdcError as error:
                yield PlaceSighting(f"{VIEWS} {view.name}", None, view.lsn, note=str(error))


def _find_in_view(
    pipeline: Pipeline, table: Table, row: pa.RecordBatch | None, name: TableName, state: str
) -> PlaceSighting:
    store, place = pipeline.views, f"{VIEWS} {name}"
    cut = store.cuts.last()
    version = cut.versions.get(str(name)) if cut else None
    if cut is None or version is None:
        return PlaceSighting(place, None, note=state)
    shown = store.shown_cut(cut, name)
    at = shown.position.lsn, shown.committed_ms
    compiled = compile_present_view(pipeline, str(name))
    columns = _find_columns(compiled, table)
    # of the view's key, the part that is the row's own
    by = [column for column in compiled.definition.key if column.lower() in columns]
    if row is None or not by:
        why = "the source has no row, so nobody knows which of its rows" if by else "its rows are found by other tables"
        return PlaceSighting(place, None, *at, f"{state}; {why}")
    opened = open_table(store.lake, name, version)
    if opened is None:
        return PlaceSighting(place, None, *at, f"{state}; version {version} is gone")
    log, own = opened
    wanted = {column: row.column(columns[column.lower()])[0] for column in by}
    storage = store.lake.table_storage(name)
    parts = [
        _match(rows, wanted)
        for file in log.snapshot.files.values()
        # the key's columns first: most files have no such row
        if any(len(_match(keys, wanted)) for keys in live_rows(storage, Share(file), own, by))
        for rows in live_rows(storage, Share(file), own)
    ]
    found = pa.concat_tables(parts) if parts else None
    number = found.num_rows if found is not None else 0
    note = f"{state}; version {version}, {format_count(number, 'row')} by its {', '.join(by)}"
    # a row of the view that is of this row alone is compared with it
    is_of_one = {columns.get(column.lower()) for column in by} >= {*table.key}
    values = _to_row(found.slice(0, 1), own, columns) if found is not None and number == 1 and is_of_one else None
    return PlaceSighting(place, number > 0, *at, note if is_of_one else f"{note}; made of many", values)


def _find_columns(compiled: CompiledView, table: Table) -> Columns:
    """The view's columns, in lower case, that are columns of the only use of this table."""
    uses = [alias for alias, use in compiled.plan.uses.items() if use.table == table.name]
    if len(uses) != 1:
        return {}
    provenance, root = Provenance(compiled.statement), compiled.statement.tree.root
    found = {output.name.lower(): provenance.output(root, output.name) for output in compiled.outputs}
    names = {name.lower(): name for name in table.column_names}
    return {
        name: names[column.lower()]
        for name, sources in found.items()
        if len(sources) == 1
        for alias, column in sources
        if alias == uses[0] and column.lower() in names
    }


def _match(rows: pa.Table, wanted: Mapping[str, pa.Scalar]) -> pa.Table:
    equal = [
        pc.equal(rows[name], value.cast(rows[name].type)) if value.is_valid else pc.is_null(rows[name])
        for name, value in wanted.items()
    ]
    return rows.filter(reduce(pc.and_, equal))


def _to_row(found: pa.Table, own: Table, columns: Columns) -> Row:
    """The values of a view's row under the names that the table has for them."""
    document = json.loads(documents(found, own)[0].as_py())
    return {columns[name.lower()]: value for name, value in document.items() if name.lower() in columns}
