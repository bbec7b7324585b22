"""`cdc bootstrap`: creates a pipeline in an order in which no change is lost. A second run goes on where one ended.

The order, each step committed before the next:

1. the publication of the tables
2. the tables' filenodes, to notice a rewrite
3. the slot with its snapshot
4. a session that holds the snapshot and makes it readable for others
5. the connector, so that somebody reads the slot during the copy
6. the parallel copy into the lake
7. the followers behind the lake

A table that joins later gets a temporary slot, once a row has come through the log that was written after the connector
knew the table.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from psycopg import Connection
from pyspark.sql import SparkSession

from cdc.columns.feed import FedFollower
from cdc.config.settings import PipelineSettings
from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.core.position import Bookmark
from cdc.core.table import Table, TableName
from cdc.log.clients.topics import Admin
from cdc.progress import SPARKS_ROWS, Progress
from cdc.run.copy.fill import TableFiller, find_missing_tables, has_followed_another_lake
from cdc.run.copy.snapshot_copy import (
    NOTHING_COPIED,
    CopyContext,
    CopyResult,
    copy_on_pipeline_slot,
    copy_on_temporary_slot,
    copy_with_restarts,
    start_capture,
)
from cdc.run.lease import hold_lease
from cdc.run.pipeline import delta_follower, fed_followers, feed_of
from cdc.run.spark.job_progress import track_count
from cdc.run.tables import problems
from cdc.run.tables.history_check import check_history
from cdc.run.tables.preflight import accept_tables, describe_skipped
from cdc.run.tables.schema_check import find_changed_choices
from cdc.run.tables.selection import find_selected
from connect.capture import debezium_properties, topics
from connect.capture.connect_client import ConnectClient
from connect.decided_properties import CONNECTOR_CLASS
from connect.settings import SourceSettings
from connect.source import connection as source
from connect.source import preflight, publication, registration, schema_history, slot
from connect.source.catalog import TablesRefusedError
from connect.source.heartbeat import HEARTBEAT
from connect.source.registration import Registration
from sinks.lake.follower import DeltaFollower


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """The outcome of a bootstrap.

    `copied`: rows by table copied now. `bookmarks`: of all tables that the lake has. `loaded`: for each follower behind
    the lake that was filled, the tables that it lacked.
    """

    copied: dict[TableName, int] = field(default_factory=dict)
    bookmarks: dict[TableName, Bookmark] = field(default_factory=dict)
    loaded: dict[str, list[TableName]] = field(default_factory=dict)

    @property
    def has_changed(self) -> bool:
        return bool(self.copied or self.loaded)


def bootstrap(
    settings: PipelineSettings,
    start_spark: Callable[[], SparkSession],
    say: Callable[[str], None],
    progress: Progress,
    again: Sequence[TableName] = (),
) -> BootstrapResult:
    """Create the missing parts, copy tables without a bookmark and those in `again`, and fill the followers behind.

    Checks everything first that can be checked, before it makes anything. Spark starts only when there is something to
    copy or to fill. `say` gets a line per step, `progress` a bar per table. Raises CdcError.
    """
    with source.open_connection(settings.source) as connection, ConnectClient(settings.connect.url) as client:
        names = find_selected(connection, settings)
        if unknown := sorted(set(again) - set(names)):
            raise ConfigurationError(f"{unknown[0]} is no table of the source that is followed", "correct --again")
        rechosen = {name: why for name, why in find_changed_choices(settings).items() if name in names}
        for name, why in rechosen.items():
            say(f"{name} is copied again: {why}")
        again = [*dict.fromkeys([*again, *rechosen])]
        optional = _find_optional(settings, names) - set(again)
        tables, skipped = run_preflight(settings, connection, client, names, optional)
        for refusal in chain.from_iterable(skipped.values()):
            say(f"not followed: {refusal}")
        for notice in describe_skipped(settings, tables):
            say(str(notice))
        _check_history(settings, connection)
        # before the lease: every step makes only missing parts, and two processes make the same ones
        registered = prepare_capture(settings, connection, tables, say)
        with hold_lease(settings, "bootstrap"):
            # under the lease: another bootstrap may have finished the copies a moment ago
            captured = [table.name for table in tables]
            spark = None if _has_all_copies(settings, captured) and not again else start_spark()
            context = CopyContext(settings, connection, client, spark, captured, registered, say, progress)
            _release_unlisted(context, delta_follower(settings), [*captured, *skipped])
            return _copy_and_fill(context, tables, again, optional)


def run_preflight(
    settings: PipelineSettings,
    connection: Connection,
    client: ConnectClient,
    names: Sequence[TableName],
    optional: Set[TableName],
) -> tuple[list[Table], Mapping[TableName, Sequence[PreconditionError]]]:
    """Check source, Kafka Connect, followers and tables, before anything is made.

    Returns the tables that can be followed, and the reasons against the other `optional` ones. Raises CdcError with
    every reason against the rest.
    """
    preflight.check(connection, settings.source)
    if CONNECTOR_CLASS not in client.plugins():
        raise PreconditionError("Kafka Connect has no Debezium connector for Postgres", "put it on plugin.path")
    _check_followers_answer(settings)
    return accept_tables(connection, settings, names, client.extensions(), optional)


def _check_history(settings: PipelineSettings, connection: Connection) -> None:
    """Raise HistoryLostError when the log cannot go on from the lake's position. A first bootstrap has none yet."""
    slot.check_wal_kept(slot.read_state(connection, settings.source.slot))
    delta_follower(settings).cuts.check_capture()
    check_history(settings)


def _check_followers_answer(settings: PipelineSettings) -> None:
    """Raise UnreachableError for a follower that does not answer."""
    # now, not when it is filled: a copy may take hours before that
    for follower in fed_followers(None, settings).values():
        with closing(follower):
            follower.position()


def _find_optional(settings: PipelineSettings, names: Sequence[TableName]) -> Set[TableName]:
    """The tables whose refusal does not fail the bootstrap: stopped ones, and new ones that only a pattern names."""
    lake = delta_follower(settings)
    new = set(names) - lake.bookmarks().keys() - set(settings.selection.names)
    return new | {stop.name for stop in lake.tables.stops()}


def _release_unlisted(context: CopyContext, follower: DeltaFollower, listed: Sequence[TableName]) -> None:
    """Stop following, and capturing, the tables that the configuration no longer lists."""
    left_out = [name for name in follower.bookmarks() if name not in listed]
    if left_out:
        # a running `cdc follow` would go on to put them into cuts
        with hold_lease(context.settings, context.settings.delta[0]):
            # in this order: after a kill in between they are still followed, and the next run leaves them out
            publication.withdraw(context.connection, context.registration.publication, left_out)
            follower.release(left_out)
        names = ", ".join(map(str, left_out))
        context.say(f"{names}: left out; followers keep its rows, and copy it anew when it is listed again")


def _has_all_copies(settings: PipelineSettings, names: Sequence[TableName]) -> bool:
    """Has every table its copy in the lake and in the followers behind it, so that Spark has nothing to do?"""
    lake = delta_follower(settings)
    fed = fed_followers(None, settings).items()
    if lake.position() is None:
        return False
    in_lake = set(names) <= set(lake.bookmarks())
    return in_lake and not any(find_missing_tables(follower, feed_of(settings, name, None)) for name, follower in fed)


def prepare_capture(
    settings: PipelineSettings,
    connection: Connection,
    tables: Sequence[Table],
    say: Callable[[str], None],
    *,
    is_ours: bool = False,
) -> Registration:
    """Register the pipeline in the source, and make its publication, event triggers and topics where they are missing.

    `is_ours`: things with these names belong to this pipeline, even if its registration is gone. Raises
    PreconditionError for a slot, publication or topic that belongs to somebody else.
    """
    src, name = settings.source, settings.pipeline.name
    beats, history = TableName(src.heartbeat_schema, HEARTBEAT), schema_history.history_table(src).name
    registered = registration.read_registration(connection, src, name)
    with Admin(settings.log) as admin:
        messages = debezium_properties.sends_messages(settings.connect)
        required = topics.required_topics(
            settings.log, [table.name for table in tables], beats, history, messages=messages
        )
        is_ours = is_ours or registered is not None
        if more := topics.check(admin, required, ours=is_ours):
            say(f"more partitions than log.partitions, followed as they are: {', '.join(more)}")
        # unregistered things with these names are somebody else's: the connector would drain or alter them
        if not is_ours:
            _check_names_free(settings, connection)
        registration.prepare_schema(connection, src)
        ours = Registration(name, src.slot, src.publication, settings.log.prefix)
        # before anything else is made: after a kill, the next run knows its own things by this row
        registered = registration.register(connection, src, ours)
        # before the slot: Postgres decodes a change with the catalog of its moment, which needs the publication
        publication.publish(connection, src.publication, [*(table.name for table in tables), beats, history])
        why_none = schema_history.install_triggers(connection, src)
        can_be_told = schema_history.install_function(connection, src)
        if why_none:
            say(_describe_missing_triggers(src, why_none, can_be_told=can_be_told))
        # before the connector writes: a topic created by the broker has its default number of partitions
        if altered := topics.ensure(admin, required):
            say(f"configured anew as the log block says: {', '.join(altered)}")
    return registered


def _describe_missing_triggers(source: SourceSettings, why_none: str, *, can_be_told: bool) -> str:
    call = f"; end a migration with SELECT {source.heartbeat_schema}.shapes_now() to report its changes"
    return (
        f"no event triggers ({why_none}): polling the catalog instead; schema changes undone between two polls are"
        f" missed{call if can_be_told else ''}"
    )


def _check_names_free(settings: PipelineSettings, connection: Connection) -> None:
    src = settings.source
    if slot.read_state(connection, src.slot):
        raise PreconditionError(
            f"slot {src.slot} is there already and is not this pipeline's", "choose another source.slot, or drop it"
        )
    if publication.read_publication(connection, src.publication) is not None:
        raise PreconditionError(
            f"publication {src.publication} is there already and is not this pipeline's",
            "choose another source.publication, or drop it",
        )
    preflight.check_free_slot(connection)


def _copy_and_fill(
    context: CopyContext, tables: Sequence[Table], again: Sequence[TableName], optional: Set[TableName]
) -> BootstrapResult:
    follower = delta_follower(context.settings)
    to_replace = [name for name in again if name in follower.bookmarks()]
    if to_replace:
        # readers keep the old rows until the new copy is there; the stream goes on with the other tables
        with hold_lease(context.settings, context.settings.delta[0]):
            follower.tables.stop(dict.fromkeys(to_replace, "it is to be copied again"), copy=to_replace)
    for problem in problems.describe_stops(context.settings, follower):
        context.say(str(problem))
    follower.prepare(tables)
    copied = _copy_missing(context, follower, to_replace)
    for name in copied.refused.keys() & optional:
        context.say(f"not copied: {copied.refused[name]}")
    refusals = [refusal for name, refusal in copied.refused.items() if name not in optional]
    if not follower.bookmarks():
        raise TablesRefusedError(refusals or copied.refused.values())
    # after the copies, before the other followers: those are filled from a cut
    follower.first_cut(int(time.time() * 1000))
    loaded = _fill_followers(context)
    fed = fed_followers(None, context.settings)
    refusals += chain.from_iterable(
        problems.describe_stops_in(context.settings, name, follower) for name, follower in fed.items()
    )
    if refusals:
        raise TablesRefusedError(refusals)
    return BootstrapResult(copied.rows, follower.bookmarks(), loaded)


def _copy_missing(context: CopyContext, follower: DeltaFollower, again: Sequence[TableName]) -> CopyResult:
    has = follower.bookmarks()
    missing = [name for name in context.captured if name not in has or name in again]
    state = slot.read_state(context.connection, context.registration.slot)
    # copies without a slot: the changes since then are lost
    if has:
        slot.check_exists(state, context.registration.slot)
    if state is None:
        return copy_with_restarts(context, copy_on_pipeline_slot, follower, missing)
    # before any copy: the slot keeps WAL until somebody reads it, and the log has a table's changes only from the time
    # when the connector knows the table
    start_capture(context)
    return copy_with_restarts(context, copy_on_temporary_slot, follower, missing) if missing else NOTHING_COPIED


def _fill_followers(context: CopyContext) -> dict[str, list[TableName]]:
    """Fill the followers behind the lake that are new, have lost a table, or have followed another lake."""
    loaded: dict[str, list[TableName]] = {}
    for name, follower in fed_followers(context.spark, context.settings).items():
        feed = feed_of(context.settings, name, context.spark)
        missing = find_missing_tables(follower, feed)
        if missing:
            context.say(f"filling {name}")
            # its stream would fill it, too; two at once would drop each other's tables
            with hold_lease(context.settings, name), closing(follower):
                if has_followed_another_lake(follower, feed):
                    context.say(f"{name} followed another lake: all of its tables are copied from this one")
                    # before the copies: after a kill in between, the next run copies all tables again
                    follower.forget_position()
                open_bar = partial(_open_bar, context.progress, name, follower)
                TableFiller(name, follower, feed, context.say, open_bar).resume()
            loaded[name] = missing
    return loaded


@contextmanager
def _open_bar(progress: Progress, name: str, follower: FedFollower, table: TableName, rows: int) -> Iterator[None]:
    # by the follower's own count of writes: Spark reports rows only when a task ends, after half a minute of silence
    count = partial(follower.write_count, table)
    with progress.bar(f"{name} {table}", rows, waiting_for=SPARKS_ROWS) as advance, track_count(count, advance, rows):
        yield
