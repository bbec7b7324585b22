"""Compares the source's tables with those that the lake follows."""

from collections.abc import Collection, Sequence

from cdc.connect.source import catalog, publication, schema_history
from cdc.connect.source.column_types import find_choice
from cdc.connect.table_choices import ChosenType, ColumnChoices
from cdc.core.errors import CdcError, HistoryLostError, PreconditionError
from cdc.core.schema_change import describe_differences, has_more_columns
from cdc.core.table import Column, Table, TableName
from cdc.core.table_state import ACTIVE
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.metadata.stopped_tables import recopy_remedy


def read_followed_tables(pipeline: Pipeline) -> list[Table]:
    """The tables that the lake follows and the configuration names, as the lake has them."""
    active = pipeline.lake_follower.tables.select(*ACTIVE).items()
    return [table.table for name, table in active if name in pipeline.settings.selection]


def find_different(pipeline: Pipeline, tables: Sequence[Table]) -> dict[TableName, PreconditionError]:
    """Of these tables of the source, those that the lake has with another schema; with the difference."""
    now = {table.name: table for table in tables}
    differences_of = {
        was.name: describe_difference(was, now[was.name]) for was in read_followed_tables(pipeline) if was.name in now
    }
    return {name: error for name, error in differences_of.items() if error}


def find_changed_choices(pipeline: Pipeline) -> dict[TableName, str]:
    """The copied tables whose `source.column_types` have changed since, and how: their rows would have mixed types."""
    choices = pipeline.settings.source.choices
    changes: dict[TableName, str] = {}
    for name, followed in pipeline.lake_follower.tables.all().items():
        of, table = choices.types_of(name), followed.table
        wanted = [(column, _find_choice(table, column, of)) for column in table.columns]
        columns = [
            f"{column.name} as {choice or 'it is'}" for column, choice in wanted if column.chosen != str(choice or "")
        ]
        if columns and name in pipeline.settings.selection:
            changes[name] = f"source.column_types has changed: {', '.join(columns)}"
    return changes


def _find_choice(table: Table, column: Column, choices: ColumnChoices) -> ChosenType | None:
    """The choice for a column that the lake has. A chosen type hides the column's own, and any other counts as fit."""
    if column.chosen:
        return choices.find(column.name) or choices.numerics
    return find_choice(column, choices, is_key=column.name in table.key)


def find_unlogged_changes(pipeline: Pipeline) -> dict[TableName, CdcError]:
    """The changed tables (`find_changed_tables`) of which the schema history in the log says nothing.

    Empty if the source has the event triggers that write the history. First writes the changes of partitions into the
    history, which no event trigger reports.
    """
    with pipeline.open_source() as connection:
        schema_history.note_partitions(connection, pipeline.settings.source)
        has_triggers = schema_history.has_triggers(connection, pipeline.settings.source)
        logged = set() if has_triggers else schema_history.find_announced(connection, pipeline.settings.source)
    changed = {} if has_triggers else find_changed_tables(pipeline)
    # a migration may have logged its changes; that a table has left the publication is never logged
    return {name: error for name, error in changed.items() if name not in logged or isinstance(error, HistoryLostError)}


def find_changed_tables(pipeline: Pipeline, *, also_widened: bool = True) -> dict[TableName, CdcError]:
    """The followed tables with other columns or another key in the source now, or outside the publication.

    `also_widened`: including those that only have further columns. Messages show added and dropped columns, but not
    a changed type: only the catalog has that.
    """
    # read anew: the stream may have added columns since the last look
    tables = read_followed_tables(pipeline.reopened())
    if not tables:
        return {}
    with pipeline.open_source() as connection:
        sent = publication.read_publication(connection, pipeline.settings.source.publication) or set()
        examined = catalog.examine(connection, [table.name for table in tables], pipeline.settings.source.choices)
    now = {table.name: table for table in examined.tables}
    changes = {
        was.name: _check_published(was.name, sent) or describe_difference(was, now[was.name])
        if was.name in now
        else examined.refusals[was.name][0]
        for was in tables
    }
    # the log brings further columns, too, in their place among the changes
    wider = {was.name for was in tables if was.name in now and has_more_columns(was, now[was.name])}
    return {name: error for name, error in changes.items() if error and (also_widened or name not in wider)}


def _check_published(name: TableName, sent: Collection[TableName]) -> CdcError | None:
    """A dropped table leaves its publications, and a new one of its name is in none of them."""
    if name in sent:
        return None
    return HistoryLostError(
        f"{name} was dropped and made again, or taken out of the publication: its changes since are not in the log",
        recopy_remedy(name),
    )


def describe_difference(before: Table, now: Table) -> PreconditionError | None:
    """The error for a changed table; None when nothing differs."""
    columns = describe_differences(before, now)
    if not columns:
        return None
    return PreconditionError(
        f"{now.name} has changed since it was copied: {', '.join(columns)}", recopy_remedy(now.name)
    )
