"""One line for each table that is stopped, not copied yet, or has held keys: the reason, and the remedy."""

from collections.abc import Sequence
from typing import Final

from psycopg import Connection

from cdc.columns.feed import FedFollower
from cdc.connect.source import catalog
from cdc.connect.source.catalog import ExaminedTables
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.selection import BUT
from cdc.core.table import TableName
from cdc.core.text.plural import format_count
from cdc.run.pipeline import Pipeline
from cdc.run.tables.preflight import examine_tables, merge_refusals
from cdc.run.tables.selection import find_uncopied, list_followed
from cdc.sinks.lake.metadata.stopped_tables import StoppedTable

MOST_SHOWN: Final = 3
"""Children of one table that a line names: a hypertable has hundreds."""


def describe_stop(stop: StoppedTable, now: ExaminedTables) -> PreconditionError:
    """Describe a stopped table. A new copy may not be enough as remedy: the table may be refused as it is `now`."""
    if stop.name not in now.refusals:
        return PreconditionError(str(stop), stop.remedy)
    refusal = merge_refusals(now.refusals[stop.name])
    return PreconditionError(f"{stop}; as it is now it cannot be copied: {refusal.what}", refusal.remedy)


def describe_blocked_keys(table: TableName, keys: int, letters: int) -> PreconditionError:
    """Describe a table with so many dead letters, of so many keys."""
    what = f"{table}: {format_count(keys, 'key')} held, {format_count(letters, 'message')} not applied"
    return PreconditionError(what, "`cdc dead-letters list`")


def describe_stops(pipeline: Pipeline) -> list[PreconditionError]:
    """Describe the lake's stopped tables; with the tables of the source as they are now, if it answers."""
    stops = pipeline.lake_follower.tables.stops()
    if not stops:
        return []
    try:
        with pipeline.open_source() as connection:
            names = [stop.name for stop in stops]
            now = examine_tables(connection, pipeline, names)
    # the stop itself is known without the source; only its remedy may be less exact
    except CdcError:
        now = ExaminedTables([], {}, {})
    return [describe_stop(stop, now) for stop in stops]


def describe_stops_in(pipeline: Pipeline, name: str, follower: FedFollower) -> list[PreconditionError]:
    """Describe the tables that are stopped in one follower behind the lake, except those that it is not to hold."""
    followed = set(list_followed(pipeline))
    stops = {table: stop for table, stop in follower.stops().items() if table in followed}
    return [
        PreconditionError(f"{name}: {stop.what}", stop.remedy)
        for table, stop in sorted(stops.items())
        if pipeline.settings.holds(name, table)
    ]


def describe_uncopied(pipeline: Pipeline) -> list[PreconditionError]:
    """Describe new tables of a pattern that cannot be copied, or that nobody copies since no `cdc follow` runs."""
    if not pipeline.settings.selection.has_patterns or pipeline.lake_follower.position() is None:
        return []
    with pipeline.open_source() as connection:
        now = examine_tables(connection, pipeline, sorted(find_uncopied(connection, pipeline)))
    ready: Sequence[PreconditionError] = [describe_missing_copy(table.name, "run `cdc follow`") for table in now.fit]
    is_followed = pipeline.leases.is_held(pipeline.lake_name)
    return [*map(merge_refusals, now.refusals.values()), *([] if is_followed else ready)]


def describe_children(
    pipeline: Pipeline, connection: Connection, names: Sequence[TableName]
) -> list[PreconditionError]:
    """Describe the tables of `names` from which others inherit that the file neither follows nor leaves out.

    A table is followed without the rows of its children: Postgres sends these under the child's own name.
    """
    selection = pipeline.settings.selection
    errors = []
    for parent, children in catalog.list_children(connection, names).items():
        if unnamed := [child for child in children if child not in selection and not selection.leaves_out(child)]:
            shown = ", ".join(map(str, unnamed[:MOST_SHOWN]))
            further = f" and {len(unnamed) - MOST_SHOWN} more" if len(unnamed) > MOST_SHOWN else ""
            errors.append(
                PreconditionError(
                    f"{parent} is followed without the rows of what inherits from it: {shown}{further}",
                    f'name it in source.tables to follow it by itself, or as "{BUT}{unnamed[0]}" if that is meant',
                )
            )
    return errors


def describe_missing_copy(name: TableName, remedy: str) -> PreconditionError:
    """Describe a table that could be followed and has no copy."""
    return PreconditionError(f"{name} is not copied yet", remedy)
