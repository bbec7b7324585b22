"""Brings a pipeline into being, in the order in which nothing can be lost; run again, it goes on where it was.

The order (each step committed before the next): the tables' publication, their filenodes, the slot with its snapshot,
a keeper that makes the snapshot readable, the connector (so that the slot drains during the copy), the parallel copy,
then the followers behind the lake. A table that joins later gets a temporary slot, once the log has carried a row
written after the connector knew the table.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial

from psycopg import Connection
from pyspark.sql import SparkSession

from cdc.columns.feed import FedFollower, required
from cdc.config.settings import PipelineSettings
from cdc.core.errors import PreconditionError
from cdc.core.position import Bookmark, format_lsn
from cdc.core.table import Table, TableName
from cdc.log.clients.topics import Admin
from cdc.run.acceptance import accepted
from cdc.run.feed_stream import lacking, resumed
from cdc.run.history_check import check_history
from cdc.run.job_progress import counted, watched
from cdc.run.pipeline import delta_follower, fed_followers, feed_of, lake_of, lease
from cdc.run.progress import SPARKS_ROWS, Bars
from cdc.run.schema_check import check_schema, followed
from connect import catalog, connector, marker, publication, readiness, registration, slot, source, topics
from connect.registration import HEARTBEAT, Registration
from connect.rest import ConnectClient
from sinks.lake.copied_files import CopyWriter
from sinks.lake.follower import DeltaFollower
from sinks.lake.follower import again as remedy
from snapshots.copy import SnapshotSource, copy_table
from snapshots.keeper import Filenodes, Kept, TableRewritten, filenodes, kept

STARTS = 5
"""How often a copy starts over when a table is rewritten under it."""


@dataclass(frozen=True, slots=True)
class Outcome:
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


@dataclass(frozen=True, slots=True)
class _Work:
    """What every step needs."""

    settings: PipelineSettings
    connection: Connection
    client: ConnectClient
    spark: SparkSession | None
    tables: Sequence[Table]
    registration: Registration
    say: Callable[[str], None]
    bars: Bars


def bootstrap(
    settings: PipelineSettings,
    start_spark: Callable[[], SparkSession],
    say: Callable[[str], None],
    bars: Bars,
    again: Sequence[TableName] = (),
) -> Outcome:
    """Make what is missing, copy what has no bookmark or is named `again`, and fill the followers behind the lake.

    Checks everything that can be checked before it makes anything. Raises CdcError with what is wrong. `say` is given a
    line a step, `bars` a bar a table; Spark is started only where something is left to copy or to fill.
    """
    with source.connected(settings.source) as connection, ConnectClient(settings.connect.url) as client:
        readiness.check(connection, settings.source)
        if connector.CONNECTOR_CLASS not in client.plugins():
            raise PreconditionError("Kafka Connect has no Debezium connector for Postgres", "put it on plugin.path")
        tables = accepted(connection, settings, exact_text=client.has(connector.EXACT_TEXT))
        slot.check_kept(slot.state(connection, settings.source.slot))
        check_history(settings)
        check_schema(settings, [table for table in followed(settings) if table.name not in again])
        stands = _prepare(settings, connection, client, tables)
        with lease(settings, "bootstrap"):
            # asked under the lease: another bootstrap may have finished the copies a moment ago
            spark = None if _is_whole(settings) and not again else start_spark()
            return _fill(_Work(settings, connection, client, spark, tables, stands, say, bars), again)


def _leave_out(work: _Work, follower: DeltaFollower) -> None:
    """Release the tables that are followed and named no more; their changes are not captured any longer."""
    left_out = [name for name in follower.bookmarks() if name not in work.settings.tables]
    if left_out:
        # whoever follows the lake would go on to put them into cuts
        with lease(work.settings, work.settings.delta[0]):
            follower.release(left_out)
        publication.withdraw(work.connection, work.registration.publication, left_out)
        told = ", ".join(map(str, left_out))
        work.say(f"{told}: left out; what the followers hold of it stays, and is copied anew when it is named again")


def _is_whole(settings: PipelineSettings) -> bool:
    """Has every table its copy, in the lake and in the followers behind it? Then Spark has nothing to do."""
    lake = delta_follower(settings)
    fed = fed_followers(None, settings).items()
    if lake.position() is None:
        return False
    whole = set(settings.tables) <= set(lake.bookmarks())
    return whole and not any(lacking(follower, feed_of(settings, name, None)) for name, follower in fed)


def _prepare(
    settings: PipelineSettings, connection: Connection, client: ConnectClient, tables: Sequence[Table]
) -> Registration:
    """Check, write down what will be ours, and make the publication and the topics."""
    src, name = settings.source, settings.pipeline.name
    beats = TableName(src.heartbeat_schema, HEARTBEAT)
    stands = registration.registered(connection, src, name)
    with Admin(settings.log) as admin:
        wanted = topics.wanted(settings.log, [table.name for table in tables], beats)
        topics.check(admin, wanted, ours=stands is not None)
        # without a row of ours, what has these names is somebody else's, and would be drained or altered
        if stands is None:
            _nothing_of_ours(settings, connection)
        registration.prepare_schema(connection, src)
        wish = Registration(name, src.slot, src.publication, settings.log.prefix)
        # before the first thing is made: a bootstrap that is killed behind this line knows its own again
        stands = registration.register(connection, src, wish)
        # before the slot: a change is decoded with the catalog of its moment, and a later publication is not in that
        publication.publish(connection, src.publication, [*(table.name for table in tables), beats])
        # before the connector writes: a topic that comes by itself has as many partitions as its broker likes
        topics.ensure(admin, wanted)
    return stands


def _nothing_of_ours(settings: PipelineSettings, connection: Connection) -> None:
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


def _fill(work: _Work, again: Sequence[TableName]) -> Outcome:
    follower = delta_follower(work.settings)
    _leave_out(work, follower)
    if known := [name for name in again if name in follower.bookmarks()]:
        # whoever follows the lake would go on to put them into cuts
        with lease(work.settings, work.settings.delta[0]):
            follower.release(known)
    for stop in follower.stopped():
        work.say(f"{stop} → {remedy(stop.name)}")
    follower.prepare(work.tables)
    copied = _copy_missing(work, follower)
    # behind the copies, before the others: who follows the lake is filled from a cut
    follower.first_cut(int(time.time() * 1000))
    loaded = _load_fed(work)
    return Outcome(copied, follower.bookmarks(), loaded)


def _copy_missing(work: _Work, follower: DeltaFollower) -> dict[TableName, int]:
    has = follower.bookmarks()
    missing = [table for table in work.tables if table.name not in has]
    found = slot.state(work.connection, work.registration.slot)
    # copies, and no slot: what changed since they were made is nowhere any more
    if has:
        slot.check_there(found, work.registration.slot)
    if found is None:
        return _started_over(work, lambda: _first_copy(work, follower, missing))
    # before any copy: the slot keeps WAL until somebody reads it, and a table's changes are in the log only once the
    # connector knows the table
    _start_capture(work)
    return _started_over(work, lambda: _later_copy(work, follower, missing)) if missing else {}


def _started_over(work: _Work, copy: Callable[[], dict[TableName, int]]) -> dict[TableName, int]:
    for left in reversed(range(STARTS)):
        try:
            return copy()
        except TableRewritten as rewritten:
            if not left:
                raise
            work.say(f"{rewritten}")
            # a first copy that was broken off leaves its slot behind, which nobody drains yet
            _start_capture(work)
    raise AssertionError("unreachable")


def _first_copy(work: _Work, follower: DeltaFollower, missing: Sequence[Table]) -> dict[TableName, int]:
    # a second try: the slot of the first one is there, but its snapshot went with its connection
    if slot.state(work.connection, work.registration.slot) is not None:
        return _later_copy(work, follower, missing)
    with _snapshot(work, missing, work.registration.slot, temporary=False) as (keeper, bookmark):
        work.say(f"slot {work.registration.slot} at {format_lsn(bookmark.lsn)}")
        # the slot drains while the tables are copied: WAL would else pile up for as long as that takes
        _start_capture(work)
        return _copy(work, follower, missing, keeper, bookmark)


def _later_copy(work: _Work, follower: DeltaFollower, missing: Sequence[Table]) -> dict[TableName, int]:
    """Copy on a temporary slot's snapshot, once capture is proven with these tables.

    Not at once when they are published: a transaction that began before would lose its first rows, which neither the
    copy nor the log has (seen).
    """
    # 50 + 6 and a pid fit the 63 bytes of a name; no two sessions that live have the same pid
    name = f"{work.registration.slot[:50]}_copy_{work.connection.info.backend_pid}"
    with _snapshot(work, missing, name, temporary=True) as (keeper, bookmark):
        work.say(f"copy of {len(missing)} tables at {format_lsn(bookmark.lsn)}")
        return _copy(work, follower, missing, keeper, bookmark)


@contextmanager
def _snapshot(
    work: _Work, tables: Sequence[Table], slot_name: str, *, temporary: bool
) -> Iterator[tuple[Kept, Bookmark]]:
    """A slot's snapshot, readable by any session for as long as the context lasts, and its bookmark.

    At the end the keeper's session goes first, then the slot's connection, and a temporary slot with it.
    """
    names = [table.name for table in tables]
    # before the slot: a table that is rewritten in between has another file than the snapshot knows
    before: Filenodes = filenodes(work.connection, names)
    src = work.settings.source
    with (
        slot.created(src, slot_name, temporary=temporary) as snapshot,
        source.connected(src, autocommit=False) as keeping,
        kept(keeping, snapshot.name, names, before) as keeper,
    ):
        yield keeper, snapshot.bookmark


def _start_capture(work: _Work) -> None:
    """Start the connector, or give it the new list of tables, and see a row go through it."""
    s = work.settings
    names = [table.name for table in work.tables]
    keys, exact_text = catalog.other_keys(work.connection, names), work.client.has(connector.EXACT_TEXT)
    captured = connector.Captured(names, keys, exact_text)
    config = connector.configuration(work.connection, s.source, s.connect, work.registration, captured)
    done = connector.start(work.client, s.connect.connector, config)
    if done:
        work.say(f"connector {s.connect.connector} {done}")
    proof = marker.Capture(s.source, s.log, work.client, s.connect.connector, s.pipeline.name)
    marker.prove(work.connection, proof)


def _copy(
    work: _Work, follower: DeltaFollower, tables: Sequence[Table], keeper: Kept, bookmark: Bookmark
) -> dict[TableName, int]:
    readers = SnapshotSource(source.conninfo(work.settings.source), keeper.snapshot)
    copied: dict[TableName, int] = {}
    spark, rows, lake = required(work.spark), keeper.estimated_rows, lake_of(work.settings)
    for table in tables:
        storage = lake.table(table.name)
        storage.make()
        with work.bars.bar(str(table.name), rows[table.name] or None, waiting_for=SPARKS_ROWS) as advance:
            watch = watched(spark, advance, rows[table.name])
            files = copy_table(spark, readers, table, keeper.pages[table.name], CopyWriter(table, storage), watch)
        # one commit a table, its bookmark in it: whoever is killed copies only what has none the next time
        follower.load(table, files, bookmark)
        copied[table.name] = sum(file.rows for file in files)
    return copied


def _load_fed(work: _Work) -> dict[str, list[TableName]]:
    """Fill the followers behind the lake that have nothing yet, or have lost a table."""
    loaded: dict[str, list[TableName]] = {}
    for name, follower in fed_followers(work.spark, work.settings).items():
        feed = feed_of(work.settings, name, work.spark)
        lost = lacking(follower, feed)
        if lost:
            work.say(f"filling {name}")
            # its own stream would fill it as well: two at once make its tables anew under each other
            with lease(work.settings, name), closing(follower):
                resumed(follower, feed, partial(_watched_fill, work.bars, name, follower))
            loaded[name] = lost
    return loaded


@contextmanager
def _watched_fill(bars: Bars, name: str, follower: FedFollower, table: TableName, rows: int) -> Iterator[None]:
    count = partial(follower.written, table)
    with bars.bar(f"{name} {table}", rows, waiting_for=SPARKS_ROWS) as advance, counted(count, advance, rows):
        yield
