"""Finds the tables that the settings name: in the source, or among those that are followed already."""

from collections.abc import Collection, Sequence

from psycopg import Connection

from cdc.config.settings import PipelineSettings
from cdc.connect.source import catalog
from cdc.connect.source import connection as source
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.sinks.lake.follower import DeltaFollower


def find_selected(connection: Connection, settings: PipelineSettings) -> Sequence[TableName]:
    """All tables to follow; patterns are matched against the source. Raises PreconditionError when there are none."""
    selection = settings.selection
    there = catalog.list_tables(connection, settings.source.heartbeat_schema) if selection.has_patterns else ()
    names = selection.select_from(there)
    if not names:
        raise PreconditionError(
            f"no table of the source is named by {', '.join(selection.entries)}", "correct source.tables"
        )
    return names


def list_followed(settings: PipelineSettings, lake: DeltaFollower) -> Sequence[TableName]:
    """The tables that the lake follows or is to follow, without asking the source for new tables of a pattern."""
    selection = settings.selection
    return selection.select_from(lake.bookmarks() if selection.has_patterns else ())


def list_held_by(settings: PipelineSettings, lake: DeltaFollower, followers: Collection[str]) -> set[TableName]:
    """The tables that one of these followers holds or is to hold, without asking the source."""
    # a copied table is judged by its columns, one without a copy by its name only
    copied = {name: table.table for name, table in lake.tables.all().items()}
    return {
        name
        for name in list_followed(settings, lake)
        for follower in followers
        if (settings.holds_table(follower, copied[name]) if name in copied else settings.holds(follower, name))
    }


def find_new_tables(settings: PipelineSettings, lake: DeltaFollower) -> set[TableName]:
    """Ask the source for new tables that a pattern names.

    `lake`: one for all looks of a process, since each open table costs requests to open.
    """
    if not settings.selection.has_patterns:
        return set()
    with source.open_connection(settings.source) as connection:
        return find_uncopied(connection, settings, lake)


def find_uncopied(connection: Connection, settings: PipelineSettings, lake: DeltaFollower) -> set[TableName]:
    """The tables that a pattern names and that have no copy yet."""
    if not settings.selection.has_patterns:
        return set()
    return set(find_selected(connection, settings)) - set(settings.selection.names) - lake.bookmarks().keys()
