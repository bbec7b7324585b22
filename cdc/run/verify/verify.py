"""`cdc verify`: compares every row of every follower with the source, both at one LSN.

Measured, never inferred (*Designing Data-Intensive Applications*, chapter 12, "Trust, but Verify"). Digests come first:
tables with equal digests are equal. Only the others are compared row by row.
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
from cdc.run.tables import problems
from cdc.run.tables.history_check import require_position
from cdc.run.tables.preflight import examine_tables, merge_refusals
from cdc.run.tables.schema_check import find_different
from cdc.run.tables.selection import list_followed, list_held_by
from cdc.run.verify.catch_up import check_followed, wait_for_lsn, wait_for_tables
from cdc.run.verify.report import Report, Verdict
from connect.source import connection as source
from connect.source import heartbeat, slot
from connect.source.catalog import ExaminedTables
from sinks.lake.feed.digest import compute_digest
from sinks.lake.feed.feed import LakeFeed
from snapshots.copy import SnapshotSource
from snapshots.read import SourceRows, parts
from snapshots.shared_snapshot import PAGE_BYTES, SharedSnapshot, files, hold_snapshot

TABLES_AT_ONCE = 4
"""Tables compared at the same time: Spark spends most of a small table's time on the start of its jobs."""


@dataclass(frozen=True, slots=True)
class FollowerReader:
    """Reads a follower: its position, a table's rows, the digest of these rows, and its stopped tables."""

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
    max_keys: int,
    only: Collection[TableName] = (),
) -> Report:
    """Compare these followers with a snapshot of the source, once they have everything up to its LSN.

    `only`: compare these tables, if there are any. The report names at most `max_keys` differing keys per table. A
    table that a follower changed above the LSN in the meantime is reported as moved. Spark starts after all checks.

    Raises PreconditionError when a follower does not reach the LSN within `patience` seconds. Without `patience`, as
    soon as it is known that nobody follows it, or that the capture does not run.
    """
    lake_position = require_position(settings)
    src = settings.source
    # at most 63 bytes, as any name in Postgres: 47, 8, and 8 digits
    temporary = f"{src.slot[:47]}_verify_{time.time_ns() % 10**8}"
    with source.open_connection(src) as connection:
        tables = _select_tables(settings, names, only)
        now = examine_tables(connection, settings, tables)
        # the snapshot will be at the source's end of now: followers only reach that if the capture runs
        check = CaptureCheck(settings, connection)
        check.check_connector()
        if patience is None:
            readers = _open_readers(settings, None).items()
            positions = {name: reader.position for name, reader in readers if name in names}
            check_followed(settings, positions, source.current_lsn(connection))
        spark = start_spark()
        followers = {name: reader for name, reader in _open_readers(settings, spark).items() if name in names}
        to_compare = [table.name for table in now.fit]
        before = files(connection, to_compare)
        with (
            slot.open_slot_snapshot(src, temporary, temporary=True) as snapshot,
            source.open_connection(src, autocommit=False) as keeping,
            hold_snapshot(keeping, snapshot.name, to_compare, before) as keeper,
            ExitStack() as held,
        ):
            lsn = snapshot.bookmark.lsn
            # an END above the LSN shows that everything up to it has come; on an idle source this makes one
            heartbeat.write_heartbeat(connection, src, settings.pipeline.name, f"verify {format_lsn(lsn)}")
            snapshot_source = SnapshotSource(source.conninfo(src, connection.info.server_version), keeper.snapshot)
            log = held.enter_context(Reader(settings.log))
            since = EndsAbove(log, transaction_topic(settings.log.prefix), lsn, lake_position.log_start)
            at_lsn = _SourceSnapshot(spark, snapshot_source, keeper, lsn, since, max_keys, held)
            return _compare_followers(settings, followers, now, at_lsn, patience, check)


def _compare_followers(
    settings: PipelineSettings,
    followers: Followers,
    now: ExaminedTables,
    at_lsn: "_SourceSnapshot",
    patience: float | None,
    check: CaptureCheck,
) -> Report:
    """Wait until the followers have everything up to the LSN, then compare their tables."""
    reached = {
        name: wait_for_lsn(settings, name, reader.position, at_lsn.lsn, patience, check)
        for name, reader in followers.items()
    }
    asked = now.shapes.keys() | now.refusals.keys()
    # only now: on the way to the LSN they may have changed a table's schema, or stopped the table
    stops = wait_for_tables(settings, {name: reader.position for name, reader in followers.items()}, patience, asked)
    stopped = {stop.name: problems.describe_stop(stop, now) for stop in stops if stop.name in asked}
    at_lsn.incomparable.update(_find_incomparable(settings, now, stopped))
    followed = [table for table in now.fit if table.name not in stopped]
    verdicts = {
        name: at_lsn.verdicts(reader, reached[name], _select_own(settings, name, reader, followed))
        for name, reader in followers.items()
    }
    return Report(at_lsn.lsn, verdicts, stopped, at_lsn.incomparable)


def _select_own(
    settings: PipelineSettings, name: str, follower: FollowerReader, tables: Sequence[Table]
) -> list[Table]:
    """The tables of these that the follower holds, including stopped ones that it can no longer hold."""
    stopped = follower.stops()
    return [
        table
        for table in tables
        if settings.holds_table(name, table) or (settings.holds(name, table.name) and table.name in stopped)
    ]


def _select_tables(
    settings: PipelineSettings, names: Sequence[str], only: Collection[TableName]
) -> Sequence[TableName]:
    """The tables to compare. Raises ConfigurationError for one in `only` that none of these followers has."""
    lake = delta_follower(settings)
    followed, held = list_followed(settings, lake), list_held_by(settings, lake, names)
    for table in only:
        if table not in followed or table not in held:
            raise ConfigurationError(f"{table} is followed by none of {', '.join(names)}", "correct --table")
    return [table for table in followed if not only or table in only]


def _find_incomparable(
    settings: PipelineSettings, now: ExaminedTables, stopped: Collection[TableName]
) -> dict[TableName, CdcError]:
    """The tables that are not stopped, and have no copy or another schema in the source than in the lake."""
    refused = {name: merge_refusals(refusals) for name, refusals in now.refusals.items()}
    copied = delta_follower(settings).bookmarks()
    uncopied = {
        table.name: problems.describe_missing_copy(table.name, "run `cdc bootstrap`")
        for table in now.fit
        if table.name not in copied
    }
    incomparable = {**find_different(settings, now.tables), **uncopied, **refused}
    return {name: error for name, error in incomparable.items() if name not in stopped}


def _open_readers(settings: PipelineSettings, spark: SparkSession | None) -> dict[str, FollowerReader]:
    """Readers of the followers, by name; without Spark, only their positions can be read."""
    lake = delta_follower(settings)
    feed = LakeFeed(spark, lake_of(settings))
    fed = fed_followers(spark, settings).items()
    readers = {name: FollowerReader(f.position, f.rows, f.digest, f.stops) for name, f in fed}
    lake_reader = FollowerReader(lake.position, feed.rows, partial(compute_digest, lake_of(settings), feed))
    return {settings.delta[0]: lake_reader, **readers}


@dataclass(frozen=True, slots=True)
class _SourceSnapshot:
    """The source at one LSN, and the transactions committed above it; compares followers with it."""

    spark: SparkSession
    snapshot_source: SnapshotSource
    keeper: SharedSnapshot
    lsn: Lsn
    since: EndsAbove
    max_keys: int
    held: ExitStack
    reading: Lock = field(default_factory=Lock)
    digests: dict[TableName, Digest] = field(default_factory=dict)
    sides: dict[TableName, Side] = field(default_factory=dict)
    incomparable: dict[TableName, CdcError] = field(default_factory=dict)
    """Why some tables have no verdict; `_verdict_or_none` adds to it."""

    def verdicts(
        self, follower: FollowerReader, position: Position, tables: Sequence[Table]
    ) -> dict[TableName, Verdict]:
        stops = {name: PreconditionError(stop.what, stop.remedy) for name, stop in follower.stops().items()}
        comparable = [table for table in tables if table.name not in self.incomparable and table.name not in stops]
        with ThreadPoolExecutor(TABLES_AT_ONCE) as threads:
            verdicts = threads.map(lambda table: self._verdict_or_none(follower, position, table), comparable)
            by_table = {table.name: verdict for table, verdict in zip(comparable, verdicts, strict=True)}
        stopped = {table.name: Verdict(None, stopped=stops[table.name]) for table in tables if table.name in stops}
        return {**{name: verdict for name, verdict in by_table.items() if verdict}, **stopped}

    def _verdict_or_none(self, follower: FollowerReader, position: Position, table: Table) -> Verdict | None:
        """None when the source has a value that no follower can hold; other tables are compared all the same."""
        try:
            return self._verdict(follower, position, table)
        except _UnsupportedValueError as refusal:
            self.incomparable[table.name] = PreconditionError(refusal.what, refusal.remedy)
            return None

    def _verdict(self, follower: FollowerReader, position: Position, table: Table) -> Verdict:
        # the follower is read after the LSN was reached, so it may already have later changes: `_count_moved`
        ours, theirs = self._digest(table), follower.digest(table)
        moved = self._count_moved(follower, position, table)
        if moved or ours == theirs:
            return Verdict(None if moved else Comparison(ours.rows, theirs.rows), moved)
        comparison = self._compare_rows(follower, table)
        moved = self._count_moved(follower, position, table)
        return Verdict(None if moved else comparison, moved)

    def _count_moved(self, follower: FollowerReader, position: Position, table: Table) -> int:
        """Count the changes of the table above the LSN that the follower may hold.

        Called after its rows were read: changes applied meanwhile may be among them.
        """
        latest = follower.position() or position
        if latest.lsn <= self.lsn:
            return 0
        # one reader for all threads: its consumer is not thread-safe
        with self.reading:
            return self.since.up_to(latest.end_offset).counts([str(table.name)]).get(str(table.name), 0)

    def _compare_rows(self, follower: FollowerReader, table: Table) -> Comparison:
        theirs = hash_side(follower.rows(table), table)
        try:
            return compare(self._side(table), theirs, table, self.max_keys)
        finally:
            theirs.release()

    def _source(self, table: Table) -> SourceRows:
        return SourceRows.at(self.spark, self.snapshot_source, table, self.keeper.pages[table.name])

    def _digest(self, table: Table) -> Digest:
        """The source's digest, computed once for all followers."""
        if table.name not in self.digests:
            with _translate_read_errors(table):
                self.digests[table.name] = self._compute_digest(table)
        return self.digests[table.name]

    def _compute_digest(self, table: Table) -> Digest:
        pages = self.keeper.pages[table.name]
        # a Spark job takes a twelfth of a second before its first row; a small table is read in less than that
        if sum(pages.values()) * PAGE_BYTES <= digests.SMALL_BYTES:
            return digest_of_rows(parts(self.snapshot_source, table, pages), table)
        return digest_of_copy(self._source(table), table)

    def _side(self, table: Table) -> Side:
        """The source's side of a comparison, read once for all followers that differ."""
        if table.name not in self.sides:
            with _translate_read_errors(table):
                self.sides[table.name] = hash_side(self._source(table).frame(), table)
            self.held.callback(self.sides[table.name].release)
        return self.sides[table.name]


class _UnsupportedValueError(PreconditionError):
    """The source has a value that no follower can hold."""


@contextmanager
def _translate_read_errors(table: Table) -> Iterator[None]:
    """Translate errors of reading the source's rows."""
    try:
        with translate_errors(f"the comparison of {table.name}"):
            yield
    except PreconditionError as refusal:
        raise _UnsupportedValueError(refusal.what, refusal.remedy) from refusal
