"""Brings a pipeline into being, in the order in which nothing can be lost; run again, it goes on where it was.

The order (each step committed before the next): the tables' publication, their filenodes, the slot with its snapshot,
a keeper that makes the snapshot readable, the connector (so that the slot drains during the copy), the parallel copy,
then the followers behind the lake. A table that joins later gets a temporary slot, once the log has carried a row
written after the connector knew the table.
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
from cdc.run.progress import SPARKS_ROWS, Bars
from cdc.run.spark.job_progress import track_count
from cdc.run.tables import problems as left_behind
from cdc.run.tables.history_check import check_history
from cdc.run.tables.preflight import accept_tables, describe_skipped
from cdc.run.tables.schema_check import find_changed_choices
from cdc.run.tables.selection import find_selected
from connect.capture import connector, topics
from connect.capture.connect_client import ConnectClient
from connect.settings import SourceSettings
from connect.source import connection as source
from connect.source import preflight as readiness
from connect.source import publication, registration, schema_history, slot
from connect.source.catalog import TablesRefusedError
from connect.source.heartbeat import HEARTBEAT
from connect.source.registration import Registration
from sinks.lake.follower import DeltaFollower


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """What a bootstrap did, and whether anything changed at all.

    `copied`: the tables that it copied, with their rows. `bookmarks`: those of all tables that the lake has. `loaded`:
    for each follower behind the lake that was filled, the tables that it lacked.
    """

    copied: dict[TableName, int] = field(default_factory=dict)
    bookmarks: dict[TableName, Bookmark] = field(default_factory=dict)
    loaded: dict[str, list[TableName]] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return bool(self.copied or self.loaded)


def bootstrap(
    settings: PipelineSettings,
    start_spark: Callable[[], SparkSession],
    say: Callable[[str], None],
    bars: Bars,
    again: Sequence[TableName] = (),
) -> BootstrapResult:
    """Make what is missing, copy what has no bookmark or is named `again`, and fill the followers behind the lake.

    Checks everything that can be checked before it makes anything. Raises CdcError with what is wrong. `say` is given a
    line a step, `bars` a bar a table; Spark is started only where something is left to copy or to fill.
    """
    with source.connected(settings.source) as connection, ConnectClient(settings.connect.url) as client:
        names = find_selected(connection, settings)
        if unknown := sorted(set(again) - set(names)):
            raise ConfigurationError(f"{unknown[0]} is no table of the source that is followed", "correct --again")
        chosen = {name: told for name, told in find_changed_choices(settings).items() if name in names}
        for name, why in chosen.items():
            say(f"{name} is copied again: {why}")
        again = [*dict.fromkeys([*again, *chosen])]
        needless = _find_optional(settings, names) - set(again)
        tables, passed_over = run_preflight(settings, connection, client, names, needless)
        for refusal in chain.from_iterable(passed_over.values()):
            say(f"not followed: {refusal}")
        for told in describe_skipped(settings, tables):
            say(str(told))
        _check_history(settings, connection)
        # before the lease: what it makes is made if absent, and two at once make the same
        stands = prepare_capture(settings, connection, tables, say)
        with hold_lease(settings, "bootstrap"):
            # asked under the lease: another bootstrap may have finished the copies a moment ago
            captured = [table.name for table in tables]
            spark = None if _has_all_copies(settings, captured) and not again else start_spark()
            work = CopyContext(settings, connection, client, spark, captured, stands, say, bars)
            _release_unlisted(work, delta_follower(settings), [*captured, *passed_over])
            return _copy_and_fill(work, tables, again, needless)


def run_preflight(
    settings: PipelineSettings,
    connection: Connection,
    client: ConnectClient,
    names: Sequence[TableName],
    needless: Set[TableName],
) -> tuple[list[Table], Mapping[TableName, Sequence[PreconditionError]]]:
    """Check whatever capture would later fail on; gives the tables that can be followed, and why others cannot that are
    `needless`. Raises CdcError with what is wrong."""
    readiness.check(connection, settings.source)
    if connector.CONNECTOR_CLASS not in client.plugins():
        raise PreconditionError("Kafka Connect has no Debezium connector for Postgres", "put it on plugin.path")
    _check_followers_answer(settings)
    return accept_tables(connection, settings, names, client.extensions(), needless)


def _check_history(settings: PipelineSettings, connection: Connection) -> None:
    """Raise HistoryLostError when what the lake has cannot be followed on from; a first bootstrap has nothing yet."""
    slot.check_kept(slot.state(connection, settings.source.slot))
    delta_follower(settings).check_capture()
    check_history(settings)


def _check_followers_answer(settings: PipelineSettings) -> None:
    """Raise UnreachableError for a follower that does not answer."""
    for follower in fed_followers(None, settings).values():
        with closing(follower):
            follower.position()


def _find_optional(settings: PipelineSettings, names: Sequence[TableName]) -> Set[TableName]:
    """The tables without which the others go on: those that are stopped, and those of which nobody has a copy and that
    only a pattern names."""
    lake = delta_follower(settings)
    passed_over = set(names) - lake.bookmarks().keys() - set(settings.selection.names)
    return passed_over | {stop.name for stop in lake.stops()}


def _release_unlisted(work: CopyContext, follower: DeltaFollower, wanted: Sequence[TableName]) -> None:
    """Release the tables that are followed and named no more; their changes are not captured any longer."""
    left_out = [name for name in follower.bookmarks() if name not in wanted]
    if left_out:
        # whoever follows the lake would go on to put them into cuts
        with hold_lease(work.settings, work.settings.delta[0]):
            # in this order: whoever is killed in between finds them followed, and leaves them out again
            publication.withdraw(work.connection, work.registration.publication, left_out)
            follower.release(left_out)
        told = ", ".join(map(str, left_out))
        work.say(f"{told}: left out; what the followers hold of it stays, and is copied anew when it is named again")


def _has_all_copies(settings: PipelineSettings, names: Sequence[TableName]) -> bool:
    """Has every table its copy, in the lake and in the followers behind it? Then Spark has nothing to do."""
    lake = delta_follower(settings)
    fed = fed_followers(None, settings).items()
    if lake.position() is None:
        return False
    whole = set(names) <= set(lake.bookmarks())
    return whole and not any(find_missing_tables(follower, feed_of(settings, name, None)) for name, follower in fed)


def prepare_capture(
    settings: PipelineSettings,
    connection: Connection,
    tables: Sequence[Table],
    say: Callable[[str], None],
    *,
    is_ours: bool = False,
) -> Registration:
    """Check, write down what will be ours, and make the publication and the topics.

    `is_ours`: what has these names is this pipeline's, also where the source does not know that any more.
    """
    src, name = settings.source, settings.pipeline.name
    beats, history = TableName(src.heartbeat_schema, HEARTBEAT), schema_history.history_of(src).name
    stands = registration.registered(connection, src, name)
    with Admin(settings.log) as admin:
        messages = connector.sends_messages(settings.connect)
        wanted = topics.wanted(settings.log, [table.name for table in tables], beats, history, messages=messages)
        is_ours = is_ours or stands is not None
        if more := topics.check(admin, wanted, ours=is_ours):
            say(f"more partitions than log.partitions, followed as they are: {', '.join(more)}")
        # without a row of ours, what has these names is somebody else's, and would be drained or altered
        if not is_ours:
            _check_names_free(settings, connection)
        registration.prepare_schema(connection, src)
        wish = Registration(name, src.slot, src.publication, settings.log.prefix)
        # before the first thing is made: a bootstrap that is killed behind this line knows its own again
        stands = registration.register(connection, src, wish)
        # before the slot: a change is decoded with the catalog of its moment, and a later publication is not in that
        publication.publish(connection, src.publication, [*(table.name for table in tables), beats, history])
        why_none = schema_history.keep(connection, src)
        can_be_told = schema_history.put_shapes_now(connection, src)
        if why_none:
            say(_describe_missing_triggers(src, why_none, can_be_told=can_be_told))
        # before the connector writes: a topic that comes by itself has as many partitions as its broker likes
        if altered := topics.ensure(admin, wanted):
            say(f"configured anew as the log block says: {', '.join(altered)}")
    return stands


def _describe_missing_triggers(source: SourceSettings, why_none: str, *, can_be_told: bool) -> str:
    call = f"; a migration that ends with SELECT {source.heartbeat_schema}.shapes_now() tells of its own"
    return (
        f"no event triggers ({why_none}): the catalog is asked instead, and does not tell of changes that were undone"
        f" in between{call if can_be_told else ''}"
    )


def _check_names_free(settings: PipelineSettings, connection: Connection) -> None:
    src = settings.source
    if slot.state(connection, src.slot):
        raise PreconditionError(
            f"slot {src.slot} is there already and is not this pipeline's", "choose another source.slot, or drop it"
        )
    if publication.published(connection, src.publication) is not None:
        raise PreconditionError(
            f"publication {src.publication} is there already and is not this pipeline's",
            "choose another source.publication, or drop it",
        )
    readiness.check_free_slot(connection)


def _copy_and_fill(
    work: CopyContext, tables: Sequence[Table], again: Sequence[TableName], needless: Set[TableName]
) -> BootstrapResult:
    follower = delta_follower(work.settings)
    known = [name for name in again if name in follower.bookmarks()]
    if known:
        # who reads the lake has the old rows until the new ones are there, and who follows it the other tables
        with hold_lease(work.settings, work.settings.delta[0]):
            follower.stop(dict.fromkeys(known, "it is to be copied again"), copy=known)
    for told in left_behind.describe_stops(work.settings, follower):
        work.say(str(told))
    follower.prepare(tables)
    copied = _copy_missing(work, follower, known)
    for name in copied.unfit.keys() & needless:
        work.say(f"not copied: {copied.unfit[name]}")
    needed = [unfit for name, unfit in copied.unfit.items() if name not in needless]
    if not follower.bookmarks():
        raise TablesRefusedError(needed or copied.unfit.values())
    # behind the copies, before the others: who follows the lake is filled from a cut
    follower.first_cut(int(time.time() * 1000))
    loaded = _fill_followers(work)
    fed = fed_followers(None, work.settings)
    needed += chain.from_iterable(
        left_behind.describe_stops_in(work.settings, name, each) for name, each in fed.items()
    )
    if needed:
        raise TablesRefusedError(needed)
    return BootstrapResult(copied.rows, follower.bookmarks(), loaded)


def _copy_missing(work: CopyContext, follower: DeltaFollower, again: Sequence[TableName]) -> CopyResult:
    has = follower.bookmarks()
    missing = [name for name in work.captured if name not in has or name in again]
    found = slot.state(work.connection, work.registration.slot)
    # copies, and no slot: what changed since they were made is nowhere any more
    if has:
        slot.check_there(found, work.registration.slot)
    if found is None:
        return copy_with_restarts(work, copy_on_pipeline_slot, follower, missing)
    # before any copy: the slot keeps WAL until somebody reads it, and a table's changes are in the log only once the
    # connector knows the table
    start_capture(work)
    return copy_with_restarts(work, copy_on_temporary_slot, follower, missing) if missing else NOTHING_COPIED


def _fill_followers(work: CopyContext) -> dict[str, list[TableName]]:
    """Fill the followers behind the lake that have nothing yet, have lost a table, or followed another lake."""
    loaded: dict[str, list[TableName]] = {}
    for name, follower in fed_followers(work.spark, work.settings).items():
        feed = feed_of(work.settings, name, work.spark)
        lost = find_missing_tables(follower, feed)
        if lost:
            work.say(f"filling {name}")
            # its own stream would fill it as well: two at once make its tables anew under each other
            with hold_lease(work.settings, name), closing(follower):
                if has_followed_another_lake(follower, feed):
                    work.say(f"{name} followed another lake: all of its tables are copied from this one")
                    # before the copies: whoever is killed in between is given all of them again
                    follower.forget_position()
                TableFiller(name, follower, feed, work.say, partial(_open_bar, work.bars, name, follower)).resume()
            loaded[name] = lost
    return loaded


@contextmanager
def _open_bar(bars: Bars, name: str, follower: FedFollower, table: TableName, rows: int) -> Iterator[None]:
    count = partial(follower.write_count, table)
    with bars.bar(f"{name} {table}", rows, waiting_for=SPARKS_ROWS) as advance, track_count(count, advance, rows):
        yield
