"""`cdc verify`: is every follower what its source is, once both are at one LSN? Measured, never inferred.

(*Designing Data-Intensive Applications*, chapter 12, "Trust, but Verify")

Digests first: tables whose rows have the same are equal. Only those that have not are brought together, row by row.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

from pyspark.sql import DataFrame, SparkSession

from cdc.columns.rows import digest as digests
from cdc.columns.rows.compare import Comparison, Side, compare, hash_side
from cdc.columns.rows.digest import Digest, digest_of_copy, digest_of_rows
from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError, ConfigurationError, PreconditionError, TableStoppedError
from cdc.core.position import Lsn, Position, format_lsn
from cdc.core.table import Table, TableName
from cdc.log.clients.reader import Reader
from cdc.log.names import transaction_topic
from cdc.log.transactions import EndsAbove
from cdc.run.capture.progress_check import CaptureCheck
from cdc.run.pipeline import delta_follower, fed_followers, lake_of
from cdc.run.spark.errors import translate_errors
from cdc.run.tables import problems as left_behind
from cdc.run.tables.history_check import require_position
from cdc.run.tables.preflight import examine_tables, merge_refusals
from cdc.run.tables.schema_check import find_different
from cdc.run.tables.selection import list_followed, list_held_by
from cdc.run.verify.catch_up import check_followed, wait_for_lsn, wait_for_tables
from cdc.run.verify.report import Report, Verdict
from connect.source import connection as source
from connect.source import heartbeat, slot
from connect.source.catalog import Examined
from sinks.lake.feed.digest import compute_digest
from sinks.lake.feed.feed import LakeFeed
from snapshots.copy import SnapshotSource
from snapshots.read import SourceRows, parts
from snapshots.shared_snapshot import PAGE_BYTES, Kept, files, kept

TABLES_AT_ONCE = 4
"""Most of a small table's time is Spark's way into it."""


@dataclass(frozen=True, slots=True)
class FollowerReader:
    """How a follower's position is asked for, and its rows: as they are, and as their digest; and which tables are
    stopped in it."""

    position: Callable[[], Position | None]
    rows: Callable[[Table], DataFrame]
    digest: Callable[[Table], Digest]
    stops: Callable[[], Mapping[TableName, TableStoppedError]] = dict


Followers = Mapping[str, FollowerReader]


def verify(
    settings: PipelineSettings,
    start_spark: Callable[[], SparkSession],
    names: Sequence[str],
    patience: float | None,
    most: int,
    chosen: Collection[TableName] = (),
) -> Report:
    """Compare these followers with a snapshot of the source, when they have everything up to its LSN.

    `chosen`: only these tables, where there are some. Spark starts once everything else is checked. Of each table at
    most `most` differing keys are named; one that the follower has changed behind the LSN meanwhile is told as moved.
    Raises PreconditionError when a follower does not get there within `patience` seconds; without any, as soon as it is
    known that nobody brings it there, or that the capture does not run.
    """
    stands = require_position(settings)
    src = settings.source
    # at most 63 bytes, as any name in Postgres: 47, 8, and 8 digits
    temporary = f"{src.slot[:47]}_verify_{time.time_ns() % 10**8}"
    with source.connected(src) as connection:
        wanted = _select_tables(settings, names, chosen)
        now = examine_tables(connection, settings, wanted)
        # the source's rows are read at an LSN of now: only a capture that runs brings anybody there
        check = CaptureCheck(settings, connection)
        check.check_connector()
        if patience is None:
            positions = {name: each.position for name, each in _open_readers(settings, None).items() if name in names}
            check_followed(settings, positions, source.current_lsn(connection))
        spark = start_spark()
        followers = {name: each for name, each in _open_readers(settings, spark).items() if name in names}
        compared = [table.name for table in now.fit]
        before = files(connection, compared)
        with (
            slot.created(src, temporary, temporary=True) as snapshot,
            source.connected(src, autocommit=False) as keeping,
            kept(keeping, snapshot.name, compared, before) as keeper,
            ExitStack() as held,
        ):
            lsn = snapshot.bookmark.lsn
            # an END above the LSN shows that everything up to it has come; an idle source would send none
            heartbeat.write_heartbeat(connection, src, settings.pipeline.name, f"verify {format_lsn(lsn)}")
            readers = SnapshotSource(source.conninfo(src, connection.info.server_version), keeper.snapshot)
            reader = held.enter_context(Reader(settings.log))
            since = EndsAbove(reader, transaction_topic(settings.log.prefix), lsn, stands.log_start)
            truth = _SourceSnapshot(spark, readers, keeper, lsn, since, most, held)
            return _compare_followers(settings, followers, now, truth, patience, check)


def _compare_followers(
    settings: PipelineSettings,
    followers: Followers,
    now: Examined,
    truth: "_SourceSnapshot",
    patience: float | None,
    check: CaptureCheck,
) -> Report:
    """The verdicts, once the followers have everything up to the LSN."""
    reached = {
        name: wait_for_lsn(settings, name, each.position, truth.lsn, patience, check)
        for name, each in followers.items()
    }
    asked = now.shapes.keys() | now.refusals.keys()
    # only now: until they were there, they may have gone along with a change of the schema, or stopped at it
    stops = wait_for_tables(settings, {name: each.position for name, each in followers.items()}, patience, asked)
    stopped = {stop.name: left_behind.describe_stop(stop, now) for stop in stops if stop.name in asked}
    truth.incomparable.update(_find_incomparable(settings, now, stopped))
    going = [table for table in now.fit if table.name not in stopped]
    found = {
        name: truth.verdicts(each, reached[name], _select_own(settings, name, each, going))
        for name, each in followers.items()
    }
    return Report(truth.lsn, found, stopped, truth.incomparable)


def _select_own(
    settings: PipelineSettings, name: str, follower: FollowerReader, tables: Sequence[Table]
) -> list[Table]:
    """The follower's own of these tables, also those that it had and cannot hold any more."""
    stopped = follower.stops()
    return [
        table
        for table in tables
        if settings.holds_table(name, table) or (settings.holds(name, table.name) and table.name in stopped)
    ]


def _select_tables(
    settings: PipelineSettings, names: Sequence[str], chosen: Collection[TableName]
) -> Sequence[TableName]:
    """Raises ConfigurationError for a table that is chosen and that none of these followers has."""
    lake = delta_follower(settings)
    followed, held = list_followed(settings, lake), list_held_by(settings, lake, names)
    for table in chosen:
        if table not in followed or table not in held:
            raise ConfigurationError(f"{table} is followed by none of {', '.join(names)}", "correct --table")
    return [table for table in followed if not chosen or table in chosen]


def _find_incomparable(
    settings: PipelineSettings, now: Examined, stopped: Collection[TableName]
) -> dict[TableName, CdcError]:
    """The tables that cannot be followed any more as the source has them, or are not yet, and nobody has stopped."""
    unfit = {name: merge_refusals(refusals) for name, refusals in now.refusals.items()}
    copied = delta_follower(settings).bookmarks()
    lacking = {
        table.name: left_behind.describe_missing_copy(table.name, "run `cdc bootstrap`")
        for table in now.fit
        if table.name not in copied
    }
    found = {**find_different(settings, now.tables), **lacking, **unfit}
    return {name: each for name, each in found.items() if name not in stopped}


def _open_readers(settings: PipelineSettings, spark: SparkSession | None) -> dict[str, FollowerReader]:
    """The followers by name; without Spark, only to be asked where they stand."""
    lake = delta_follower(settings)
    feed = LakeFeed(spark, lake_of(settings))
    fed = fed_followers(spark, settings).items()
    readbacks = {name: FollowerReader(each.position, each.rows, each.digest, each.stops) for name, each in fed}
    read = FollowerReader(lake.position, feed.rows, partial(compute_digest, lake_of(settings), feed))
    return {settings.delta[0]: read, **readbacks}


@dataclass(frozen=True, slots=True)
class _SourceSnapshot:
    """The source at one LSN, what has been committed since, and what it is compared by."""

    spark: SparkSession
    readers: SnapshotSource
    keeper: Kept
    lsn: Lsn
    since: EndsAbove
    most: int
    held: ExitStack
    reading: Lock = field(default_factory=Lock)
    digests: dict[TableName, Digest] = field(default_factory=dict)
    sides: dict[TableName, Side] = field(default_factory=dict)
    incomparable: dict[TableName, CdcError] = field(default_factory=dict)
    """Tables of which there are no verdicts, and why."""

    def verdicts(
        self, follower: FollowerReader, position: Position, tables: Sequence[Table]
    ) -> dict[TableName, Verdict]:
        stops = {name: PreconditionError(stop.what, stop.remedy) for name, stop in follower.stops().items()}
        comparable = [table for table in tables if table.name not in self.incomparable and table.name not in stops]
        with ThreadPoolExecutor(TABLES_AT_ONCE) as threads:
            found = threads.map(lambda table: self._verdict_if_held(follower, position, table), comparable)
            each = {table.name: verdict for table, verdict in zip(comparable, found, strict=True)}
        stopped = {table.name: Verdict(None, stopped=stops[table.name]) for table in tables if table.name in stops}
        return {**{name: verdict for name, verdict in each.items() if verdict}, **stopped}

    def _verdict_if_held(self, follower: FollowerReader, position: Position, table: Table) -> Verdict | None:
        """None where the source has a value that no follower can hold: it is another table's verdict no less."""
        try:
            return self._verdict(follower, position, table)
        except _UnsupportedValueError as unfit:
            self.incomparable[table.name] = PreconditionError(unfit.what, unfit.remedy)
            return None

    def _verdict(self, follower: FollowerReader, position: Position, table: Table) -> Verdict:
        ours, theirs = self._digest(table), follower.digest(table)
        moved = self._count_moved(follower, position, table)
        if moved or ours == theirs:
            return Verdict(None if moved else Comparison(ours.rows, theirs.rows), moved)
        comparison = self._compare_rows(follower, table)
        moved = self._count_moved(follower, position, table)
        return Verdict(None if moved else comparison, moved)

    def _count_moved(self, follower: FollowerReader, position: Position, table: Table) -> int:
        """How many changes of the table the follower may hold that the snapshot does not.

        Asked behind the reading: what came in meanwhile may be among the rows that were read.
        """
        stands = follower.position() or position
        if stands.lsn <= self.lsn:
            return 0
        with self.reading:
            return self.since.up_to(stands.end_offset).counts([str(table.name)]).get(str(table.name), 0)

    def _compare_rows(self, follower: FollowerReader, table: Table) -> Comparison:
        theirs = hash_side(follower.rows(table), table)
        try:
            return compare(self._side(table), theirs, table, self.most)
        finally:
            theirs.release()

    def _source(self, table: Table) -> SourceRows:
        return SourceRows.at(self.spark, self.readers, table, self.keeper.pages[table.name])

    def _digest(self, table: Table) -> Digest:
        """The source's digest, made once however many followers there are."""
        if table.name not in self.digests:
            with _translate_read_errors(table):
                self.digests[table.name] = self._read(table)
        return self.digests[table.name]

    def _read(self, table: Table) -> Digest:
        pages = self.keeper.pages[table.name]
        if sum(pages.values()) * PAGE_BYTES <= digests.SMALL_BYTES:
            return digest_of_rows(parts(self.readers, table, pages), table)
        return digest_of_copy(self._source(table), table)

    def _side(self, table: Table) -> Side:
        """The source's side, read once however many followers differ."""
        if table.name not in self.sides:
            with _translate_read_errors(table):
                self.sides[table.name] = hash_side(self._source(table).frame(), table)
            self.held.callback(self.sides[table.name].release)
        return self.sides[table.name]


class _UnsupportedValueError(PreconditionError):
    """The source has a value that no follower can hold."""


@contextmanager
def _translate_read_errors(table: Table) -> Iterator[None]:
    """The source's rows of the table are read meanwhile."""
    try:
        with translate_errors(f"the comparison of {table.name}"):
            yield
    except PreconditionError as unfit:
        raise _UnsupportedValueError(unfit.what, unfit.remedy) from unfit
