"""Are the tables of the source still those that the lake follows?"""

from collections.abc import Collection, Sequence

from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError, HistoryLostError, PreconditionError
from cdc.core.schema_change import describe_differences, has_more_columns
from cdc.core.table import Table, TableName
from cdc.run.pipeline import delta_follower
from connect.source import catalog, publication, schema_history
from connect.source import connection as source
from sinks.lake.metadata.stopped_tables import recopy_remedy


def read_followed_tables(settings: PipelineSettings) -> list[Table]:
    """The tables that the lake has, of those that are named."""
    return [table for table in delta_follower(settings).tables() if table.name in settings.selection]


def find_different(settings: PipelineSettings, tables: Sequence[Table]) -> dict[TableName, PreconditionError]:
    """Which of these tables of the source the lake has otherwise."""
    now = {table.name: table for table in tables}
    each = {
        was.name: describe_difference(was, now[was.name]) for was in read_followed_tables(settings) if was.name in now
    }
    return {name: found for name, found in each.items() if found}


def find_changed_choices(settings: PipelineSettings) -> dict[TableName, str]:
    """The tables that are followed, or stopped, with other types than `source.column_types` says now, and how: rows and
    messages of both would be mixed."""
    choices = settings.source.choices
    found: dict[TableName, str] = {}
    for table in delta_follower(settings).all_tables():
        chosen = choices.types_of(table.name)
        told = [
            f"{column.name} as {chosen.get(column.name, 'it is')}"
            for column in table.columns
            if column.chosen != chosen.get(column.name, "")
        ]
        if told and table.name in settings.selection:
            found[table.name] = f"source.column_types has changed: {', '.join(told)}"
    return found


def find_unlogged_changes(settings: PipelineSettings) -> dict[TableName, CdcError]:
    """What `changed` finds where no event triggers keep the history, which else tells it in its place.

    What they do not hear of is written into it before.
    """
    with source.connected(settings.source) as connection:
        schema_history.note_partitions(connection, settings.source)
        kept = schema_history.is_kept(connection, settings.source)
        told = set() if kept else schema_history.told_of(connection, settings.source)
    found = {} if kept else find_changed_tables(settings)
    # what a migration has told comes by the log; that a table is sent no more does not
    return {name: error for name, error in found.items() if name not in told or isinstance(error, HistoryLostError)}


def find_changed_tables(settings: PipelineSettings, *, also_widened: bool = True) -> dict[TableName, CdcError]:
    """Which of the tables that are followed have other columns, or another key, in the source now, or are not sent.

    `also_widened`: those, too, that only have further columns.

    Messages show columns that came and went, but not that a type changed: only the catalog does.
    """
    # as they are followed now: some may have gone along since the last look
    tables = read_followed_tables(settings)
    if not tables:
        return {}
    with source.connected(settings.source) as connection:
        sent = publication.published(connection, settings.source.publication) or set()
        examined = catalog.examine(connection, [table.name for table in tables], settings.source.choices)
    now = {table.name: table for table in examined.tables}
    found = {
        was.name: _check_published(was.name, sent) or describe_difference(was, now[was.name])
        if was.name in now
        else examined.refusals[was.name][0]
        for was in tables
    }
    wider = {was.name for was in tables if was.name in now and has_more_columns(was, now[was.name])}
    return {name: error for name, error in found.items() if error and (also_widened or name not in wider)}


def _check_published(name: TableName, sent: Collection[TableName]) -> CdcError | None:
    """A dropped table leaves its publications, and one that is made again under its name is in none of them."""
    if name in sent:
        return None
    return HistoryLostError(
        f"{name} was dropped and made again, or taken out of the publication: its changes since are not in the log",
        recopy_remedy(name),
    )


def describe_difference(before: Table, now: Table) -> PreconditionError | None:
    """What differs, where these are not the same table."""
    found = describe_differences(before, now)
    if not found:
        return None
    return PreconditionError(f"{now.name} has changed since it was copied: {', '.join(found)}", recopy_remedy(now.name))
