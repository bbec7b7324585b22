"""The source at one LSN: its rows and digests, and the comparison of followers with them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock

from psycopg import Connection
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.rows import digest as digests
from cdc.columns.rows.compare import Comparison, Side, compare, hash_side
from cdc.columns.rows.digest import Digest
from cdc.columns.rows.held import Held, digest_copy, digest_rows, rows_as_held
from cdc.columns.rows.row_prints import StoredRows, digest_stored, store
from cdc.columns.spark_tasks import require_spark
from cdc.connect.source import heartbeat
from cdc.connect.source.access import connection as source
from cdc.connect.source.slots import slot
from cdc.core.errors import CdcError, PreconditionError, TableStoppedError, UnreachableError
from cdc.core.position import LogStart, Lsn, Position, format_lsn
from cdc.core.table import Table, TableName
from cdc.core.waiting import Deadline
from cdc.log.names import transaction_topic
from cdc.log.transaction_topic import EndsAbove
from cdc.run.pipeline import Pipeline
from cdc.run.spark.errors import translate_errors
from cdc.run.verify.bulkhead import compare_alone
from cdc.run.verify.report import Verdict
from cdc.snapshots.copy import SnapshotSource
from cdc.snapshots.read import SourceRows, read_in_process
from cdc.snapshots.shared_snapshot import PAGE_BYTES, OnLock, SharedSnapshot, files, hold_snapshot

LOCKED_SECONDS = 30.0
"""How long to wait for a table that somebody has locked."""
TABLES_AT_ONCE = 4
"""Tables compared at the same time: Spark spends most of a small table's time on the start of its jobs."""
HeldTable = tuple[TableName, str]
"""A table, and the name of what a follower holds of it."""


@dataclass(frozen=True, slots=True)
class FollowerReader:
    """Reads a follower: its position, a table's rows and their digest, the stopped tables, what it holds of a table.

    `stored`: the rows in this process, without Spark.
    """

    position: Callable[[], Position | None]
    rows: Callable[[Table], DataFrame]
    digest: Callable[[Table], Digest]
    stops: Callable[[], Mapping[TableName, TableStoppedError]] = dict
    held: Callable[[Table], Held | None] = lambda _: None
    stored: Callable[[Table], Iterator[StoredRows]] = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class PinnedSource:
    """The source at one LSN, and the transactions committed above it; compares followers with it.

    `spark`: None where all is read in this process; then a table that differs is told as moved, and is to be compared
    key by key.
    """

    spark: SparkSession | None
    snapshot_source: SnapshotSource
    keeper: SharedSnapshot
    lsn: Lsn
    since: EndsAbove
    max_keys: int
    held: ExitStack
    reading: Lock = field(default_factory=Lock)
    locks: dict[HeldTable, Lock] = field(default_factory=dict)
    digests: dict[HeldTable, Digest] = field(default_factory=dict)
    sides: dict[HeldTable, Side] = field(default_factory=dict)
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

        def compare_one() -> Verdict | None:
            try:
                return self._verdict(follower, position, table)
            except _UnreadableTableError as refusal:
                self.incomparable[table.name] = PreconditionError(refusal.what, refusal.remedy)
                return None

        return compare_alone(str(table.name), compare_one)

    def _verdict(self, follower: FollowerReader, position: Position, table: Table) -> Verdict:
        # the follower is read after the LSN was reached, so it may already have later changes: `_count_moved`
        held = follower.held(table)
        # both at once: while one waits for its server, the other works
        with ThreadPoolExecutor(1) as beside:
            reading = beside.submit(self._digest, table, held)
            theirs = follower.digest(table) if self.spark else digest_stored(follower.stored(table))
            ours = reading.result()
        moved = self._count_moved(follower, position, table)
        if moved or ours == theirs:
            return Verdict(None if moved else Comparison(ours.rows, theirs.rows), moved)
        if self.spark is None:
            return Verdict(None)
        comparison = self._compare_rows(follower, table, held)
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

    def _compare_rows(self, follower: FollowerReader, table: Table, held: Held | None) -> Comparison:
        compared = held.table if held else table
        theirs = hash_side(follower.rows(table), compared)
        try:
            return compare(self._side(table, held), theirs, compared, self.max_keys)
        finally:
            theirs.release()

    def _source(self, table: Table) -> SourceRows:
        return SourceRows.at(require_spark(self.spark), self.snapshot_source, table, self.keeper.pages[table.name])

    def _digest(self, table: Table, held: Held | None) -> Digest:
        """The source's digest, computed once for all followers that hold the same."""
        asked = table.name, held.name if held else ""
        with self._making(asked):
            if asked not in self.digests:
                with _translate_read_errors(table):
                    self.digests[asked] = self._compute_digest(table, held)
            return self.digests[asked]

    def _compute_digest(self, table: Table, held: Held | None) -> Digest:
        pages = self.keeper.pages[table.name]
        if self.spark is None:
            return digest_stored(store(read_in_process(self.snapshot_source, table, pages), table, held))
        # a Spark job takes a twelfth of a second before its first row; a small table is read in less than that
        if sum(pages.values()) * PAGE_BYTES <= digests.SMALL_BYTES:
            return digest_rows(read_in_process(self.snapshot_source, table, pages), table, held)
        return digest_copy(self._source(table), table, held)

    def _side(self, table: Table, held: Held | None) -> Side:
        """The source's side of a comparison, read once for all followers that hold the same and differ."""
        asked = (table.name, held.name if held else "")
        with self._making(asked):
            if asked not in self.sides:
                source = self._source(table)
                with _translate_read_errors(table):
                    rows = rows_as_held(source, table, held) if held else source.frame()
                    self.sides[asked] = hash_side(rows, held.table if held else table)
                self.held.callback(self.sides[asked].release)
            return self.sides[asked]

    def _making(self, asked: HeldTable) -> Lock:
        """The lock of what is made of the source once, for followers that are compared at the same time."""
        with self.reading:
            return self.locks.setdefault(asked, Lock())


@contextmanager
def pin_source(
    pipeline: Pipeline,
    connection: Connection,
    tables: Sequence[TableName],
    log_start: LogStart,
    max_keys: int,
    *,
    may_do_without_spark: bool = False,
) -> Iterator[PinnedSource]:
    """Hold these tables as they are now, on the snapshot of a temporary slot.

    `log_start`: of the lake's position. `max_keys`: most differing keys that a comparison names.
    `may_do_without_spark`: all is read in this process if it is little enough.
    """
    src = pipeline.settings.source
    # at most 63 bytes, as any name in Postgres: 47, 8, and 8 digits
    temporary = f"{src.slot[:47]}_verify_{time.time_ns() % 10**8}"
    before = files(connection, tables)
    with (
        slot.open_slot_snapshot(src, temporary, temporary=True) as snapshot,
        source.open_connection(src.decoding, autocommit=False) as keeping,
        hold_snapshot(keeping, snapshot.name, tables, before, _give_up_after(LOCKED_SECONDS)) as keeper,
        ExitStack() as held,
    ):
        # the keeper has the snapshot now; the slot would keep all WAL as long as the comparison lasts
        snapshot.release()
        lsn = snapshot.bookmark.lsn
        # an END above the LSN shows that everything up to it has come; on an idle source this makes one
        heartbeat.write_heartbeat(connection, src, pipeline.name, f"verify {format_lsn(lsn)}")
        conninfo = source.conninfo(src.decoding, connection.info.server_version)
        snapshot_source = SnapshotSource(conninfo, keeper.snapshot, src.mask_key)
        log = held.enter_context(pipeline.open_log())
        since = EndsAbove(log, transaction_topic(pipeline.settings.log.prefix), lsn, log_start)
        size = sum(sum(pages.values()) for pages in keeper.pages.values()) * PAGE_BYTES
        is_little = may_do_without_spark and size <= digests.IN_PROCESS * digests.SMALL_BYTES
        spark = None if is_little else pipeline.spark
        yield PinnedSource(spark, snapshot_source, keeper, lsn, since, max_keys, held)


def _give_up_after(seconds: float) -> OnLock:
    """Raise the error of a table that is locked once so many seconds are over."""
    deadline = Deadline(seconds)

    def look(locked: UnreachableError) -> None:
        if deadline.is_past:
            raise locked

    return look


class _UnreadableTableError(PreconditionError):
    """The source has a value that no follower can hold."""


@contextmanager
def _translate_read_errors(table: Table) -> Iterator[None]:
    try:
        with translate_errors(f"the comparison of {table.name}"):
            yield
    except PreconditionError as refusal:
        raise _UnreadableTableError(refusal.what, refusal.remedy) from refusal
