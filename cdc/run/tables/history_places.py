"""Names of views and tables that a history has in the lake, also one that the configuration names no more."""

from collections.abc import Iterable, Iterator

from cdc.config.errors import SettingsRefusedError
from cdc.core.errors import CdcError, ConfigurationError
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.history.epochs import is_history_folder


def check_places(pipeline: Pipeline) -> None:
    """Raise SettingsRefusedError if a history lies in the place of a view, or of a table that the file names.

    A lake that does not answer is no error here.
    """
    views = {view.name for view in pipeline.settings.view_definitions}
    try:
        taken = list(_find_taken(pipeline, {*views, *pipeline.settings.selection.names}))
    except CdcError:
        return
    if taken:
        raise SettingsRefusedError(_describe(name, is_view=name in views) for name in taken)


def _find_taken(pipeline: Pipeline, names: Iterable[TableName]) -> Iterator[TableName]:
    lake = pipeline.lake
    yield from (name for name in sorted(names) if is_history_folder(lake, name))


def _describe(name: TableName, *, is_view: bool) -> ConfigurationError:
    remedy = "rename the view" if is_view else "take it out of source.tables, or rename the table"
    what = f"{'view ' if is_view else ''}{name}: in the lake this is the name of a history, which nothing replaces"
    return ConfigurationError(what, remedy)
