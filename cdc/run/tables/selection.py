"""Finds the tables that the settings name: in the source, or among those that are followed already."""

from collections.abc import Collection, Sequence

from psycopg import Connection

from cdc.connect.source import catalog
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline


def find_selected(connection: Connection, pipeline: Pipeline) -> Sequence[TableName]:
    """All tables to follow; patterns are matched against the source. Raises PreconditionError when there are none."""
    selection = pipeline.settings.selection
    there = catalog.list_tables(connection, pipeline.settings.source.heartbeat_schema) if selection.has_patterns else ()
    names = selection.select_from(there)
    if not names:
        raise PreconditionError(
            f"no table of the source is named by {', '.join(selection.entries)}", "correct source.tables"
        )
    return names


def list_followed(pipeline: Pipeline) -> Sequence[TableName]:
    """The tables that the lake follows or is to follow, without asking the source for new tables of a pattern."""
    selection = pipeline.settings.selection
    return selection.select_from(pipeline.lake_follower.bookmarks() if selection.has_patterns else ())


def list_held_by(pipeline: Pipeline, followers: Collection[str]) -> set[TableName]:
    """The tables that one of these followers holds or is to hold, without asking the source."""
    # a copied table is judged by its columns, one without a copy by its name only
    copied = {name: table.table for name, table in pipeline.lake_follower.tables.all().items()}
    return {
        name
        for name in list_followed(pipeline)
        for follower in followers
        if (
            pipeline.settings.holds_table(follower, copied[name])
            if name in copied
            else pipeline.settings.holds(follower, name)
        )
    }


def find_new_tables(pipeline: Pipeline) -> set[TableName]:
    """Ask the source for new tables that a pattern names."""
    if not pipeline.settings.selection.has_patterns:
        return set()
    with pipeline.open_source() as connection:
        return find_uncopied(connection, pipeline)


def find_uncopied(connection: Connection, pipeline: Pipeline) -> set[TableName]:
    """The tables that a pattern names and that have no copy yet."""
    if not pipeline.settings.selection.has_patterns:
        return set()
    named = set(find_selected(connection, pipeline)) - set(pipeline.settings.selection.names)
    return named - pipeline.lake_follower.bookmarks().keys()
