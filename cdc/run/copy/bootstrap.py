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
from cdc.run.copy.fill import TableFiller, is_of_another_lake, lacking
from cdc.run.copy.snapshot_copy import NOTHING, Copied, Work, first_copy, later_copy, start_capture, started_over
from cdc.run.lease import lease
from cdc.run.pipeline import delta_follower, fed_followers, feed_of
from cdc.run.progress import SPARKS_ROWS, Bars
from cdc.run.spark.job_progress import counted
from cdc.run.tables import problems as left_behind
from cdc.run.tables.history_check import check_history
from cdc.run.tables.preflight import accepted, passed_by
from cdc.run.tables.schema_check import otherwise_chosen
from cdc.run.tables.selection import in_source
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
        names = in_source(connection, settings)
        if unknown := sorted(set(again) - set(names)):
            raise ConfigurationError(f"{unknown[0]} is no table of the source that is followed", "correct --again")
        chosen = {name: told for name, told in otherwise_chosen(settings).items() if name in names}
        for name, why in chosen.items():
            say(f"{name} is copied again: {why}")
        again = [*dict.fromkeys([*again, *chosen])]
        needless = _needless(settings, names) - set(again)
        tables, passed_over = accept_tables(settings, connection, client, names, needless)
        for refusal in chain.from_iterable(passed_over.values()):
            say(f"not followed: {refusal}")
        for told in passed_by(settings, tables):
            say(str(told))
        _check_history(settings, connection)
        # before the lease: what it makes is made if absent, and two at once make the same
        stands = prepare_capture(settings, connection, tables, say)
        with lease(settings, "bootstrap"):
            # asked under the lease: another bootstrap may have finished the copies a moment ago
            captured = [table.name for table in tables]
            spark = None if _is_whole(settings, captured) and not again else start_spark()
            work = Work(settings, connection, client, spark, captured, stands, say, bars)
            _leave_out(work, delta_follower(settings), [*captured, *passed_over])
            return _fill(work, tables, again, needless)


def accept_tables(
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
    _check_answering(settings)
    return accepted(connection, settings, names, client.extensions(), needless)


def _check_history(settings: PipelineSettings, connection: Connection) -> None:
    """Raise HistoryLostError when what the lake has cannot be followed on from; a first bootstrap has nothing yet."""
    slot.check_kept(slot.state(connection, settings.source.slot))
    delta_follower(settings).check_capture()
    check_history(settings)


def _check_answering(settings: PipelineSettings) -> None:
    """Raise UnreachableError for a follower that does not answer."""
    for follower in fed_followers(None, settings).values():
        with closing(follower):
            follower.position()


def _needless(settings: PipelineSettings, names: Sequence[TableName]) -> Set[TableName]:
    """The tables without which the others go on: those that are stopped, and those of which nobody has a copy and that
    only a pattern names."""
    lake = delta_follower(settings)
    passed_over = set(names) - lake.bookmarks().keys() - set(settings.selection.names)
    return passed_over | {stop.name for stop in lake.stopped()}


def _leave_out(work: Work, follower: DeltaFollower, wanted: Sequence[TableName]) -> None:
    """Release the tables that are followed and named no more; their changes are not captured any longer."""
    left_out = [name for name in follower.bookmarks() if name not in wanted]
    if left_out:
        # whoever follows the lake would go on to put them into cuts
        with lease(work.settings, work.settings.delta[0]):
            # in this order: whoever is killed in between finds them followed, and leaves them out again
            publication.withdraw(work.connection, work.registration.publication, left_out)
            follower.release(left_out)
        told = ", ".join(map(str, left_out))
        work.say(f"{told}: left out; what the followers hold of it stays, and is copied anew when it is named again")


def _is_whole(settings: PipelineSettings, names: Sequence[TableName]) -> bool:
    """Has every table its copy, in the lake and in the followers behind it? Then Spark has nothing to do."""
    lake = delta_follower(settings)
    fed = fed_followers(None, settings).items()
    if lake.position() is None:
        return False
    whole = set(names) <= set(lake.bookmarks())
    return whole and not any(lacking(follower, feed_of(settings, name, None)) for name, follower in fed)


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
            _nothing_of_ours(settings, connection)
        registration.prepare_schema(connection, src)
        wish = Registration(name, src.slot, src.publication, settings.log.prefix)
        # before the first thing is made: a bootstrap that is killed behind this line knows its own again
        stands = registration.register(connection, src, wish)
        # before the slot: a change is decoded with the catalog of its moment, and a later publication is not in that
        publication.publish(connection, src.publication, [*(table.name for table in tables), beats, history])
        lacking = schema_history.keep(connection, src)
        can_be_told = schema_history.put_shapes_now(connection, src)
        if lacking:
            say(_without_triggers(src, lacking, can_be_told=can_be_told))
        # before the connector writes: a topic that comes by itself has as many partitions as its broker likes
        if altered := topics.ensure(admin, wanted):
            say(f"configured anew as the log block says: {', '.join(altered)}")
    return stands


def _without_triggers(source: SourceSettings, lacking: str, *, can_be_told: bool) -> str:
    call = f"; a migration that ends with SELECT {source.heartbeat_schema}.shapes_now() tells of its own"
    return (
        f"no event triggers ({lacking}): the catalog is asked instead, and does not tell of changes that were undone in"
        f" between{call if can_be_told else ''}"
    )


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


def _fill(work: Work, tables: Sequence[Table], again: Sequence[TableName], needless: Set[TableName]) -> Outcome:
    follower = delta_follower(work.settings)
    known = [name for name in again if name in follower.bookmarks()]
    if known:
        # who reads the lake has the old rows until the new ones are there, and who follows it the other tables
        with lease(work.settings, work.settings.delta[0]):
            follower.stop(dict.fromkeys(known, "it is to be copied again"), copy=known)
    for told in left_behind.stopped(work.settings, follower):
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
    loaded = _load_fed(work)
    fed = fed_followers(None, work.settings)
    needed += chain.from_iterable(left_behind.stopped_in(work.settings, name, each) for name, each in fed.items())
    if needed:
        raise TablesRefusedError(needed)
    return Outcome(copied.rows, follower.bookmarks(), loaded)


def _copy_missing(work: Work, follower: DeltaFollower, again: Sequence[TableName]) -> Copied:
    has = follower.bookmarks()
    missing = [name for name in work.captured if name not in has or name in again]
    found = slot.state(work.connection, work.registration.slot)
    # copies, and no slot: what changed since they were made is nowhere any more
    if has:
        slot.check_there(found, work.registration.slot)
    if found is None:
        return started_over(work, first_copy, follower, missing)
    # before any copy: the slot keeps WAL until somebody reads it, and a table's changes are in the log only once the
    # connector knows the table
    start_capture(work)
    return started_over(work, later_copy, follower, missing) if missing else NOTHING


def _load_fed(work: Work) -> dict[str, list[TableName]]:
    """Fill the followers behind the lake that have nothing yet, have lost a table, or followed another lake."""
    loaded: dict[str, list[TableName]] = {}
    for name, follower in fed_followers(work.spark, work.settings).items():
        feed = feed_of(work.settings, name, work.spark)
        lost = lacking(follower, feed)
        if lost:
            work.say(f"filling {name}")
            # its own stream would fill it as well: two at once make its tables anew under each other
            with lease(work.settings, name), closing(follower):
                if is_of_another_lake(follower, feed):
                    work.say(f"{name} followed another lake: all of its tables are copied from this one")
                    # before the copies: whoever is killed in between is given all of them again
                    follower.forget_position()
                TableFiller(name, follower, feed, work.say, partial(_watched_fill, work.bars, name, follower)).resume()
            loaded[name] = lost
    return loaded


@contextmanager
def _watched_fill(bars: Bars, name: str, follower: FedFollower, table: TableName, rows: int) -> Iterator[None]:
    count = partial(follower.written, table)
    with bars.bar(f"{name} {table}", rows, waiting_for=SPARKS_ROWS) as advance, counted(count, advance, rows):
        yield
