"""Tables that are followed no further, or not at all though they are named: what to tell of each, and what to do."""

from collections.abc import Sequence

import psycopg

from cdc.columns.feed import FedFollower
from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.plural import format_count
from cdc.core.table import TableName
from cdc.run.lease import is_lease_held
from cdc.run.pipeline import delta_follower
from cdc.run.tables.preflight import examine_tables, merge_refusals
from cdc.run.tables.selection import find_uncopied, list_followed
from connect.source import connection as source
from connect.source.catalog import Examined
from sinks.lake.follower import DeltaFollower
from sinks.lake.metadata.stopped_tables import StoppedTable


def describe_stop(stop: StoppedTable, now: Examined) -> PreconditionError:
    """What to tell of a stopped table; what to do may be more than to have it copied again."""
    if stop.name not in now.refusals:
        return PreconditionError(str(stop), stop.remedy)
    unfit = merge_refusals(now.refusals[stop.name])
    return PreconditionError(f"{stop}; as it is now it cannot be copied: {unfit.what}", unfit.remedy)


def describe_held_keys(table: TableName, keys: int, letters: int) -> PreconditionError:
    """What to tell of a table that has dead letters: so many, of so many keys."""
    told = f"{table}: {format_count(keys, 'key')} held, {format_count(letters, 'message')} not applied"
    return PreconditionError(told, "`cdc dead-letters list`")


def describe_stops(settings: PipelineSettings, lake: DeltaFollower) -> list[PreconditionError]:
    """What to tell of the lake's stopped tables, by how the source has them, where it answers."""
    stops = lake.stops()
    if not stops:
        return []
    try:
        with source.connected(settings.source) as connection:
            names = [stop.name for stop in stops]
            now = examine_tables(connection, settings, names)
    except (CdcError, psycopg.Error):
        now = Examined([], {}, {})
    return [describe_stop(stop, now) for stop in stops]


def describe_stops_in(settings: PipelineSettings, name: str, follower: FedFollower) -> list[PreconditionError]:
    """What to tell of the tables that are stopped in one follower behind the lake, of those that it is to hold."""
    followed = set(list_followed(settings, delta_follower(settings)))
    stops = {table: stop for table, stop in follower.stops().items() if table in followed}
    return [
        PreconditionError(f"{name}: {stop.what}", stop.remedy)
        for table, stop in sorted(stops.items())
        if settings.holds(name, table)
    ]


def describe_uncopied(settings: PipelineSettings, lake: DeltaFollower) -> list[PreconditionError]:
    """What to tell of tables that came under a pattern, and cannot be copied or have nobody who does it."""
    if not settings.selection.has_patterns or lake.position() is None:
        return []
    with source.connected(settings.source) as connection:
        now = examine_tables(connection, settings, sorted(find_uncopied(connection, settings, lake)))
    fit: Sequence[PreconditionError] = [describe_missing_copy(table.name, "run `cdc follow`") for table in now.fit]
    copied = is_lease_held(settings, settings.delta[0])
    return [*map(merge_refusals, now.refusals.values()), *([] if copied else fit)]


def describe_missing_copy(name: TableName, remedy: str) -> PreconditionError:
    """A table that could be followed and has no copy."""
    return PreconditionError(f"{name} is not copied yet", remedy)
