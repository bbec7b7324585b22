"""Copies tables, each on the exported snapshot of a replication slot, while capture goes on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol

from psycopg import Connection

from cdc.columns.rows import digest as digests
from cdc.config.settings import CAPTURE
from cdc.connect.capture import connector
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.debezium_properties import has_slot_lsns
from cdc.connect.source import catalog
from cdc.connect.source.access import connection as source
from cdc.connect.source.heartbeat import write_beat_for
from cdc.connect.source.registration import Registration
from cdc.connect.source.slots import slot
from cdc.core.errors import PreconditionError, TableRewrittenError, UnreachableError
from cdc.core.fail_points import reach
from cdc.core.position import Bookmark, format_lsn
from cdc.core.table import Table, TableName
from cdc.core.text.plural import format_count
from cdc.log.clients.reader import read_written_ends
from cdc.log.names import change_topic, transaction_topic
from cdc.progress import FIRST_ROWS, SPARKS_ROWS, Advance, Progress
from cdc.run.copy.probe import wait_until_captured
from cdc.run.pipeline import Pipeline
from cdc.run.spark.errors import translate_errors
from cdc.run.spark.job_progress import track_job
from cdc.run.status.stream_report import open_reports, report_copy
from cdc.run.tables.capture_parts import build_connector_config
from cdc.sinks.lake.table.load import CopiedFiles, LakeCopyWriter, prepare_folder
from cdc.snapshots.copy import SnapshotSource, copy_in_process, copy_table
from cdc.snapshots.shared_snapshot import OnLock, SharedSnapshot, files, hold_snapshot

STARTS = 5
"""How often a copy starts over after a table was rewritten under it."""


@dataclass(frozen=True, slots=True)
class CopyContext:
    """The connections and settings of one copy. `captured`: all tables that the connector is to send."""

    pipeline: Pipeline
    connection: Connection
    client: ConnectClient
    captured: Sequence[TableName]
    registration: Registration
    say: Callable[[str], None]
    progress: Progress


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The rows copied per table, and why other tables were refused: they have a value that no follower can hold."""

    rows: dict[TableName, int]
    refused: dict[TableName, PreconditionError]

    def remaining(self, names: Sequence[TableName]) -> list[TableName]:
        return [name for name in names if name not in self.rows and name not in self.refused]


NOTHING_COPIED: Final = CopyResult({}, {})


class CopyReceiver(Protocol):
    """Takes a table's copy once all its files are written."""

    def load(self, table: Table, copy: CopiedFiles, bookmark: Bookmark) -> None: ...


CopyStep = Callable[[CopyContext, CopyReceiver, Sequence[Table], CopyResult], None]
"""Copies tables one by one, and adds each to the result as soon as the follower has it."""


def copy_with_restarts(
    context: CopyContext, copy: CopyStep, follower: CopyReceiver, names: Sequence[TableName]
) -> CopyResult:
    """Copy tables as they are now; start over for those that are rewritten or altered during their copy.

    Raises TableRewrittenError when that happens STARTS times.
    """
    copied = CopyResult({}, {})
    for tries_left in reversed(range(STARTS)):
        # without the tables of earlier tries: a stream may have followed them beyond the next snapshot already
        names_left = copied.remaining(names)
        try:
            tables = catalog.read_tables(context.connection, names_left, context.pipeline.settings.source.choices)
            copy(context, follower, tables, copied)
            return copied
        except TableRewrittenError as rewritten:
            if not tries_left:
                raise
            context.say(f"{rewritten}")
            # a first copy that was cut off leaves its slot behind, and nobody reads that yet
            start_capture(context)
    raise AssertionError("unreachable")


def copy_on_pipeline_slot(
    context: CopyContext, follower: CopyReceiver, missing: Sequence[Table], copied: CopyResult
) -> None:
    """Create the pipeline's slot, and copy on its snapshot."""
    # a second try: the slot is there already, but its snapshot went with the connection that made it
    if slot.read_slot(context.connection, context.pipeline.settings.source) is not None:
        copy_on_temporary_slot(context, follower, missing, copied)
        return
    with _open_snapshot(context, missing, context.registration.slot, temporary=False) as snapshot:
        context.say(f"slot {context.registration.slot} at {format_lsn(snapshot.bookmark.lsn)}")
        reach("slot.made")
        # before the copy: somebody has to read the slot meanwhile, or WAL piles up
        start_capture(context, anew=True)
        _copy_tables(context, follower, missing, snapshot, copied)


def copy_on_temporary_slot(
    context: CopyContext, follower: CopyReceiver, missing: Sequence[Table], copied: CopyResult
) -> None:
    """Copy on the snapshot of a temporary slot, once a change has gone through the capture with these tables.

    A copy right after publishing loses rows (seen): those that a transaction wrote before the publication, and
    committed after the snapshot, are neither in the log nor in the copy.
    """
    # 50 + 6 and a pid fit the 63 bytes of a name; no two live sessions share a pid
    name = f"{context.registration.slot[:50]}_copy_{context.connection.info.backend_pid}"
    with _open_snapshot(context, missing, name, temporary=True) as snapshot:
        context.say(f"copy of {format_count(len(missing), 'table')} at {format_lsn(snapshot.bookmark.lsn)}")
        _copy_tables(context, follower, missing, snapshot, copied)


@dataclass(frozen=True, slots=True)
class BookmarkedSnapshot:
    """A snapshot that any session can read while `keeper` lives, and its place in the log.

    `topics`: each table's change topic. `bookmark` has the ends of all of them.
    """

    keeper: SharedSnapshot
    bookmark: Bookmark
    topics: Mapping[TableName, str]

    def bookmark_of(self, table: TableName) -> Bookmark:
        """The bookmark of one table's copy."""
        topic = self.topics[table]
        return replace(self.bookmark, topic_ends={topic: self.bookmark.topic_ends[topic]})


@contextmanager
def _open_snapshot(
    context: CopyContext, tables: Sequence[Table], slot_name: str, *, temporary: bool
) -> Iterator[BookmarkedSnapshot]:
    """Create a slot and hold its snapshot, readable by any session, as long as the context lasts.

    A temporary slot goes as soon as the keeper has its snapshot. Raises TableRewrittenError when a table changed since
    `tables` were described.
    """
    names = [table.name for table in tables]
    # before the slot: a rewrite in between changes the file, and the snapshot would show an empty table
    before = files(context.connection, names)
    src, log = context.pipeline.settings.source, context.pipeline.settings.log
    topics = {name: change_topic(log.prefix, name) for name in names}
    # before the slot, too: what the log has by now is in the snapshot, whatever the slot waits for
    ends = read_written_ends(log, transaction_topic(log.prefix), [*topics.values()])
    with (
        slot.open_slot_snapshot(src, slot_name, temporary=temporary) as snapshot,
        source.open_connection(src.decoding, autocommit=False) as keeping,
        hold_snapshot(keeping, snapshot.name, names, before, _tell_once(context.say)) as keeper,
    ):
        # the keeper has it now; a temporary slot would keep all WAL as long as the copies last
        snapshot.release()
        # the schema history holds changes after the snapshot only
        if catalog.examine(keeping, names, src.choices).tables != list(tables):
            raise TableRewrittenError("a table's columns changed while its copy began", "start again")
        bookmark = replace(snapshot.bookmark, topic_ends=ends.changes, order_end=ends.order)
        reach("copy.begun")
        yield BookmarkedSnapshot(keeper, bookmark, topics)


def _tell_once(say: Callable[[str], None]) -> OnLock:
    """Say who locks a table, each time that it is somebody else; the copy waits on."""
    last = None

    def tell(locked: UnreachableError) -> None:
        nonlocal last
        if str(locked) != last:
            last = str(locked)
            say(f"the copy waits: {locked}")

    return tell


def start_capture(context: CopyContext, *, anew: bool = False) -> bool:
    """Start the connector, or give it the new list of tables; wait until a row has gone through it.

    Returns whether it was started, or given anything.

    `anew`: forget the offsets of an earlier connector of this name, since the slot was just created.
    """
    s, plugins = context.pipeline.settings, context.client.extensions()
    config = build_connector_config(
        context.pipeline, context.connection, context.registration, context.captured, plugins
    )
    if s.source.standby_host:
        has_lsns = has_slot_lsns(s.connect, plugins)
        write_beat_for(context.connection, s.source, context.registration.pipeline, has_lsns=has_lsns)
    if anew:
        connector.start_anew(context.client, s.connect.connector, config, s.log)
    done = "started" if anew else connector.start(context.client, s.connect.connector, config)
    # started, it is paused no more, whoever had paused it
    context.pipeline.requests.resume(CAPTURE)
    if done:
        context.say(f"connector {s.connect.connector} {done}")
    if heard := wait_until_captured(context.pipeline, context.connection):
        context.say(heard)
    reach("capture.seen")
    return done is not None


def _copy_tables(
    context: CopyContext,
    follower: CopyReceiver,
    tables: Sequence[Table],
    snapshot: BookmarkedSnapshot,
    copied: CopyResult,
) -> None:
    keeper = snapshot.keeper
    src = context.pipeline.settings.source
    conninfo = source.conninfo(src.decoding, context.connection.info.server_version)
    readers = SnapshotSource(conninfo, keeper.snapshot, src.mask_key)
    rows = keeper.estimated_rows
    reports = open_reports(context.pipeline)
    for table in tables:
        try:
            # the planner's estimate; a table that was never analysed has none, and its bar no end
            name, estimate = str(table.name), rows[table.name] or None
            with (
                context.progress.bar(name, estimate, waiting_for=_name_waited_for(keeper, table)) as advance,
                report_copy(reports, name, estimate, advance) as told,
                translate_errors(f"the copy of {table.name}"),
            ):
                files = _write_files(context.pipeline, readers, table, keeper, told)
            reach("copy.written")
            # one commit with the bookmark in it: after a kill, only tables without a bookmark are copied
            follower.load(table, files, snapshot.bookmark_of(table.name))
            reach("copy.loaded")
        except PreconditionError as refusal:
            # the other tables are copied all the same
            copied.refused[table.name] = refusal
            continue
        copied.rows[table.name] = sum(file.rows for file in files)


def _name_waited_for(keeper: SharedSnapshot, table: Table) -> str:
    return FIRST_ROWS if _is_small(keeper, table) else SPARKS_ROWS


def _is_small(keeper: SharedSnapshot, table: Table) -> bool:
    return keeper.stored_bytes[table.name] <= digests.SMALL_BYTES


def _write_files(
    pipeline: Pipeline, readers: SnapshotSource, table: Table, keeper: SharedSnapshot, advance: Advance
) -> CopiedFiles:
    """Write the table's rows as files that nobody reads yet."""
    pages, write = keeper.pages[table.name], LakeCopyWriter(table, prepare_folder(pipeline.lake, table.name))
    if not _is_small(keeper, table):
        watch = track_job(pipeline.spark, advance, keeper.estimated_rows[table.name])
        return copy_table(pipeline.spark, readers, table, pages, write, watch)
    files = copy_in_process(readers, table, pages, write)
    advance(sum(file.rows for file in files))
    return files
