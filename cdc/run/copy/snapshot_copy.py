"""Copies of tables, each on a slot's exported snapshot, while capture goes on beside them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from psycopg import Connection
from pyspark.sql import SparkSession

from cdc.columns.spark_tasks import require_spark
from cdc.config.settings import PipelineSettings
from cdc.core.errors import PreconditionError, TableRewrittenError
from cdc.core.plural import format_count
from cdc.core.position import Bookmark, format_lsn
from cdc.core.table import Table, TableName
from cdc.run.pipeline import lake_of
from cdc.run.progress import SPARKS_ROWS, Bars
from cdc.run.spark.errors import translate_errors
from cdc.run.spark.job_progress import track_job
from connect.capture import connector
from connect.capture import probe as marker
from connect.capture.connect_client import ConnectClient
from connect.source import catalog, slot
from connect.source import connection as source
from connect.source.registration import Registration
from sinks.lake.table.load import CopiedFiles, CopyWriter, prepare_folder
from snapshots.copy import SnapshotSource, copy_table
from snapshots.shared_snapshot import Kept, files, kept

STARTS = 5
"""How often a copy starts over when a table is rewritten under it."""


@dataclass(frozen=True, slots=True)
class CopyContext:
    """What every step needs; `captured`: all tables that the connector is to send."""

    settings: PipelineSettings
    connection: Connection
    client: ConnectClient
    spark: SparkSession | None
    captured: Sequence[TableName]
    registration: Registration
    say: Callable[[str], None]
    bars: Bars


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The tables that were copied, with their rows, and those that have a value which followers cannot hold."""

    rows: dict[TableName, int]
    unfit: dict[TableName, PreconditionError]

    def left_of(self, names: Sequence[TableName]) -> list[TableName]:
        return [name for name in names if name not in self.rows and name not in self.unfit]


NOTHING_COPIED: Final = CopyResult({}, {})


class CopyReceiver(Protocol):
    """Who is given a table's copy once it is written whole."""

    def load(self, table: Table, copy: CopiedFiles, bookmark: Bookmark) -> None: ...


CopyStep = Callable[[CopyContext, CopyReceiver, Sequence[Table], CopyResult], None]
"""Copies tables one by one, each noted as soon as it was taken in."""


def copy_with_restarts(
    work: CopyContext, copy: CopyStep, follower: CopyReceiver, names: Sequence[TableName]
) -> CopyResult:
    """Copy tables as they are now, anew those whose schema changes before their copy is taken in."""
    copied = CopyResult({}, {})
    for left in reversed(range(STARTS)):
        # not those that a try before took in: somebody follows them by now, beyond the next try's snapshot
        wanted = copied.left_of(names)
        try:
            copy(work, follower, catalog.describe(work.connection, wanted, work.settings.source.choices), copied)
            return copied
        except TableRewrittenError as rewritten:
            if not left:
                raise
            work.say(f"{rewritten}")
            # a first copy that was broken off leaves its slot behind, which nobody drains yet
            start_capture(work)
    raise AssertionError("unreachable")


def copy_on_pipeline_slot(
    work: CopyContext, follower: CopyReceiver, missing: Sequence[Table], copied: CopyResult
) -> None:
    """Copy on the snapshot of the pipeline's own slot, which is made for it."""
    # a second try: the slot of the first one is there, but its snapshot went with its connection
    if slot.state(work.connection, work.registration.slot) is not None:
        copy_on_temporary_slot(work, follower, missing, copied)
        return
    with _open_snapshot(work, missing, work.registration.slot, temporary=False) as (keeper, bookmark):
        work.say(f"slot {work.registration.slot} at {format_lsn(bookmark.lsn)}")
        # the slot drains while the tables are copied: WAL would else pile up for as long as that takes
        start_capture(work, anew=True)
        _copy_tables(work, follower, missing, Snapshot(keeper, bookmark), copied)


def copy_on_temporary_slot(
    work: CopyContext, follower: CopyReceiver, missing: Sequence[Table], copied: CopyResult
) -> None:
    """Copy on a temporary slot's snapshot, once capture is proven with these tables.

    Not at once when they are published: a transaction that began before would lose its first rows, which neither the
    copy nor the log has (seen).
    """
    # 50 + 6 and a pid fit the 63 bytes of a name; no two sessions that live have the same pid
    name = f"{work.registration.slot[:50]}_copy_{work.connection.info.backend_pid}"
    with _open_snapshot(work, missing, name, temporary=True) as (keeper, bookmark):
        work.say(f"copy of {format_count(len(missing), 'table')} at {format_lsn(bookmark.lsn)}")
        _copy_tables(work, follower, missing, Snapshot(keeper, bookmark), copied)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What any session can read while `keeper` lives, and its place in the log."""

    keeper: Kept
    bookmark: Bookmark


@contextmanager
def _open_snapshot(
    work: CopyContext, tables: Sequence[Table], slot_name: str, *, temporary: bool
) -> Iterator[tuple[Kept, Bookmark]]:
    """A slot's snapshot, readable by any session for as long as the context lasts, and its bookmark.

    At the end the keeper's session goes first, then the slot's connection, and a temporary slot with it.
    """
    names = [table.name for table in tables]
    # before the slot: a table that is rewritten in between has another file than the snapshot knows
    before = files(work.connection, names)
    src = work.settings.source
    with (
        slot.created(src, slot_name, temporary=temporary) as snapshot,
        source.connected(src, autocommit=False) as keeping,
        kept(keeping, snapshot.name, names, before) as keeper,
    ):
        # the history tells of changes behind the snapshot only
        if catalog.examine(keeping, names, src.choices).tables != list(tables):
            raise TableRewrittenError("a table's columns changed while its copy began", "start again")
        yield keeper, snapshot.bookmark


def start_capture(work: CopyContext, *, anew: bool = False) -> None:
    """Start the connector, or give it the new list of tables, and see a row go through it.

    `anew`: from the beginning of a slot that was made this moment, whatever a connector of this name has read before.
    """
    s = work.settings
    keys = catalog.other_keys(work.connection, work.captured, s.source.named_keys)
    texts = {name: types for name, types in s.source.choices.texts.items() if name in work.captured}
    captured = connector.Captured(work.captured, keys, texts, s.log.max_row_bytes, work.client.extensions())
    config = connector.configuration(work.connection, s.source, s.connect, work.registration, captured)
    if anew:
        connector.start_anew(work.client, s.connect.connector, config)
    done = "started" if anew else connector.start(work.client, s.connect.connector, config)
    if done:
        work.say(f"connector {s.connect.connector} {done}")
    proof = marker.Capture(s.source, s.log, work.client, s.connect.connector, s.pipeline.name)
    if done := marker.prove(work.connection, proof):
        work.say(done)


def _copy_tables(
    work: CopyContext, follower: CopyReceiver, tables: Sequence[Table], snapshot: Snapshot, copied: CopyResult
) -> None:
    keeper = snapshot.keeper
    readers = SnapshotSource(
        source.conninfo(work.settings.source, work.connection.info.server_version), keeper.snapshot
    )
    spark, rows, lake = require_spark(work.spark), keeper.estimated_rows, lake_of(work.settings)
    for table in tables:
        try:
            storage = prepare_folder(lake, table.name)
            with work.bars.bar(str(table.name), rows[table.name] or None, waiting_for=SPARKS_ROWS) as advance:
                watch, pages = track_job(spark, advance, rows[table.name]), keeper.pages[table.name]
                with translate_errors(f"the copy of {table.name}"):
                    files = copy_table(spark, readers, table, pages, CopyWriter(table, storage), watch)
            # one commit a table, its bookmark in it: whoever is killed copies only what has none the next time
            follower.load(table, files, snapshot.bookmark)
        except PreconditionError as unfit:
            # the others are copied no less
            copied.unfit[table.name] = unfit
            continue
        copied.rows[table.name] = sum(file.rows for file in files)
