"""`cdc recapture`: starts the capture anew, under the same name, after changes were lost between source and log.

A new slot gives a new snapshot and a new start in the log. All tables are copied on that snapshot, beside the old ones,
and replace them once every copy is there. Until then readers of the lake, and the followers behind it, keep the old
rows. Positions count on (`cdc.core.position.LogStart`), even in topics that were made anew.

After a kill at any moment, run it again. From its first step on, the lake is marked, and no `cdc follow` goes on.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from psycopg import Connection

from cdc.connect.capture import connector, topics
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.source import publication, registration
from cdc.connect.source.catalog import TablesRefusedError
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.connect.source.row_estimates import estimate_rows
from cdc.connect.source.schema_history import history_table
from cdc.connect.source.slots import slot
from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.core.fail_points import reach
from cdc.core.position import Bookmark, LogStart, Lsn, Offsets
from cdc.core.table import Table, TableName
from cdc.log.clients.topics import Admin
from cdc.log.names import change_topic, transaction_topic
from cdc.progress import Progress
from cdc.run.copy import snapshot_copy as copies
from cdc.run.copy.capture_setup import make_registration, prepare_capture, run_preflight
from cdc.run.copy.snapshot_copy import CopyContext, CopyResult
from cdc.run.lease import COPIES
from cdc.run.pipeline import Pipeline
from cdc.run.tables.capture_parts import list_topics
from cdc.run.tables.preflight import merge_refusals
from cdc.run.tables.selection import find_selected
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.table.load import CopiedFiles

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RecapturePlan:
    """The plan of a recapture: estimated rows by table to copy, tables that cannot be, and the parts to make anew."""

    tables: Mapping[TableName, int]
    refused: Sequence[PreconditionError]
    slot: str
    connector: str
    topics: str

    def lines(self) -> list[str]:
        """The plan for people, a line a step."""
        rows = sum(self.tables.values())
        return [
            f"slot {self.slot} is dropped and made anew; connector {self.connector} forgets how far it was",
            f"the topics {self.topics} go on, and are made where they are gone",
            f"copied again: {', '.join(map(str, self.tables))} (about {rows:,} rows)",
            *(f"left as it is, and followed no more: {refusal}" for refusal in self.refused),
            "the lake, the indexes and the latest topics stay as they are until all copies are there",
        ]


MENDED: Final = ("slot", "publication", "kafka.ours")
"""Checks of a bootstrap, or categories of them, whose findings a recapture mends, or looks at by itself."""


@dataclass(frozen=True, slots=True)
class RecaptureResult:
    """Rows by copied table, and the LSN at which the new capture begins."""

    copied: Mapping[TableName, int]
    lsn: Lsn


def plan_recapture(pipeline: Pipeline) -> RecapturePlan:
    """Plan a recapture; changes nothing. Raises CdcError when it is not possible."""
    for name in (pipeline.lake_name, COPIES):
        pipeline.leases.require_free(name)
    with pipeline.open_source() as connection:
        tables, refused = _accept_tables(pipeline, connection)
        rows = estimate_rows(connection, [table.name for table in tables])
        _check_setup(pipeline, connection, tables)
    return RecapturePlan(
        rows,
        refused,
        pipeline.settings.source.slot,
        pipeline.settings.connect.connector,
        f"{pipeline.settings.log.prefix}.*",
    )


def recapture(pipeline: Pipeline, say: Say, progress: Progress) -> RecaptureResult:
    """Start the capture anew, and copy all tables again.

    Raises CdcError when it is not possible, as far as can be known before anything is dropped. Raises RefusedError
    while somebody follows the lake on this machine.
    """
    with (
        pipeline.leases.hold(pipeline.lake_name),
        pipeline.leases.hold(COPIES),
        pipeline.open_source() as connection,
        pipeline.open_connect() as client,
    ):
        # what the plan has read may be older than the leases
        pipeline.look_again()
        follower = pipeline.lake_follower
        if follower.position() is None:
            raise HistoryLostError("the lake has no copy yet", "run `cdc bootstrap`")
        tables, _ = _accept_tables(pipeline, connection)
        # before anything is dropped: a Spark that does not start leaves the pipeline as it was
        pipeline.start_spark()
        # again: they may have changed since the plan
        _check_setup(pipeline, connection, tables)
        # from here on nobody follows on from the old position, even if this process is killed
        number = follower.cuts.begin_capture()
        reach("recapture.begun")
        _drop_old_capture(pipeline, connection, client, say)
        reach("recapture.dropped")
        # with the connector stopped: a running one would write into a topic that is being deleted
        _remake_ordering_topics(pipeline, say)
        registered = prepare_capture(pipeline, connection, tables, say, is_ours=True)
        reach("recapture.prepared")
        start = _read_ordering_ends(pipeline)
        context = CopyContext(pipeline, connection, client, [table.name for table in tables], registered, say, progress)
        pending = PendingCopies()
        copied = copies.copy_with_restarts(context, copies.copy_on_pipeline_slot, pending, context.captured)
        reach("recapture.copied")
        result = _swap_copies(follower, pending, copied, start, number)
        # one that `cdc follow` was to make is made by that
        pipeline.requests.forget_recapture()
        return result


def _accept_tables(pipeline: Pipeline, connection: Connection) -> tuple[list[Table], Sequence[PreconditionError]]:
    """The tables that can be captured, and the reasons against others. Raises TablesRefusedError when none can."""
    names = find_selected(connection, pipeline)
    tables, refused, _ = run_preflight(pipeline, connection, names, set(names), MENDED)
    refusals = [merge_refusals(reasons) for reasons in refused.values()]
    if not tables:
        raise TablesRefusedError(refusals)
    return tables, refusals


def _drop_old_capture(pipeline: Pipeline, connection: Connection, client: ConnectClient, say: Say) -> None:
    """Stop the connector, then drop its slot. In the other order the connector would fail, and report that."""
    name = pipeline.settings.connect.connector
    # with its offsets: a copy that starts over before it has started the capture would start it where the old slot was
    connector.forget(client, name, pipeline.settings.log)
    slot.drop_own(connection, pipeline.settings.source)
    say(f"connector {name} stopped, slot {pipeline.settings.source.slot} dropped")


def _check_setup(pipeline: Pipeline, connection: Connection, tables: Sequence[Table]) -> None:
    """Raise PreconditionError for a slot of somebody else, and for what `prepare_capture` refuses behind its drop."""
    source = pipeline.settings.source
    registration.check_registrable(connection, source, make_registration(pipeline))
    if slot.read_slot(connection, source) is not None and not slot.is_own_kind(connection, source):
        what = (
            f"slot {source.slot} is not a logical one of pgoutput in database {source.dbname}, so it is somebody else's"
        )
        raise PreconditionError(what, "correct source.slot")
    publication.check_whole(connection, source)
    wanted = list_topics(pipeline, [table.name for table in tables])
    with Admin(pipeline.settings.log) as admin:
        present = admin.topics([topic.name for topic in wanted])
    split = topics.find_split(wanted, present)
    topics.check_present([topic for topic in wanted if topic.name not in split], present, ours=True)


def _remake_ordering_topics(pipeline: Pipeline, say: Say) -> None:
    """Make topics anew that must have one partition, for their order, and to which somebody has added more."""
    wanted = list_topics(pipeline, [])
    with Admin(pipeline.settings.log) as admin:
        split = topics.find_split(wanted, admin.topics([topic.name for topic in wanted]))
        admin.delete_wholly(split)
    if split:
        say(f"made anew, since they have more than one partition: {', '.join(split)}")


def _read_ordering_ends(pipeline: Pipeline) -> tuple[int, Offsets]:
    """The ends of the transaction topic, and of those that no copy has a bookmark for: the new capture writes behind.

    A source that was put back gives out its transaction ids again: older heartbeats may have those of new ones.
    """
    names = heartbeat_table(pipeline.settings.source).name, history_table(pipeline.settings.source).name
    prefix = pipeline.settings.log.prefix
    order, changes = transaction_topic(prefix), [change_topic(prefix, name) for name in names]
    # including uncommitted messages: the new task ends the old one's open transaction, and writes behind it
    with pipeline.open_log(committed=False) as reader:
        ends = reader.end([order, *changes])
    return ends[order].get(0, 0), {topic: ends[topic] for topic in changes}


@dataclass(frozen=True, slots=True)
class PendingCopies:
    """Finished copies that wait for the others, before all of them replace the old tables."""

    copies: dict[TableName, tuple[Table, CopiedFiles, Bookmark]] = field(default_factory=dict)

    def load(self, table: Table, copy: CopiedFiles, bookmark: Bookmark) -> None:
        self.copies[table.name] = (table, copy, bookmark)


def _swap_copies(
    follower: DeltaFollower, pending: PendingCopies, copied: CopyResult, start: tuple[int, Offsets], number: int
) -> RecaptureResult:
    """Replace the tables by their copies, and set the lake's position to the start of the new capture."""
    if not pending.copies:
        raise TablesRefusedError(copied.refused.values())
    # the lowest: copies that started over have a later snapshot, and above this LSN some copy lacks changes
    lsn = Lsn(min(bookmark.lsn for _, _, bookmark in pending.copies.values()))
    stopped = {
        name: "the capture started anew without it" for name in follower.bookmarks() if name not in pending.copies
    }
    stopped |= {name: refusal.what for name, refusal in copied.refused.items() if name in stopped}
    # tables without a new copy must not go on from the old capture's position
    follower.tables.stop(stopped, copy=list(stopped))
    follower.prepare([table for table, _, _ in pending.copies.values()])
    # all files are written, so each commit takes milliseconds; the cut that names all of them comes last
    for table, files, bookmark in pending.copies.values():
        follower.load(table, files, bookmark, anew=True)
    reach("recapture.loaded")
    topic_offset, offsets = start
    follower.start_over(partial(LogStart, topic_offset, number=number, lsn=lsn), lsn, offsets, int(time.time() * 1000))
    reach("recapture.ended")
    return RecaptureResult(copied.rows, lsn)
