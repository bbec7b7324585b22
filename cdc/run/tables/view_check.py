"""What is wrong with views by the columns and keys of the tables that they read, before any of them is filled."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from cdc.config.errors import SettingsRefusedError
from cdc.core.containment import describe_error
from cdc.core.errors import CdcError, ConfigurationError
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.history.shape import find_obstacle, history_table
from cdc.views.compiled import compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.order import sort_readable


def check_views(pipeline: Pipeline, tables: Iterable[Table]) -> None:
    """Raise SettingsRefusedError for views that would stop when they are filled. `tables`: as they are followed.

    A view that reads another one is asked about once the lake has that.
    """
    known = {**find_histories(pipeline, tables := [*tables]), **{table.name: table for table in tables}}
    views = sort_readable(pipeline.settings.view_definitions)[0]
    if pipeline.settings.views.keys() & {str(name) for read in views.values() for name in read}:
        known |= _find_filled(pipeline)
    refused = [
        error
        for view, read in views.items()
        if known.keys() >= {*read} and (error := _find_refusal(view, {name: known[name] for name in read}))
    ]
    if refused:
        raise SettingsRefusedError(refused)


def find_histories(pipeline: Pipeline, tables: Iterable[Table]) -> dict[TableName, Table]:
    """The histories of these tables, as far as they are kept."""
    kept = [table for table in tables if table.name in pipeline.settings.histories and not find_obstacle(table)]
    return {history.name: history for history in map(history_table, kept)}


def _find_filled(pipeline: Pipeline) -> Mapping[TableName, Table]:
    # a lake that is not there, or does not answer, has none
    with suppress(CdcError):
        store = pipeline.views
        found = {view.name: store.find(view) for view in pipeline.settings.view_definitions}
        return {name: table.table for name, table in found.items() if table}
    return {}


def _find_refusal(view: ViewDefinition, tables: Mapping[TableName, Table]) -> CdcError | None:
    try:
        compile_view(view, tables)
    except ConfigurationError as error:
        return error
    except Exception as error:  # noqa: BLE001 - as `cdc follow` would say it, which stops the view
        return ConfigurationError(f"views.{view.name}: {describe_error(error)}", "write its sql in another way")
    return None
