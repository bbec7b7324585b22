"""Copies tables again, or for the first time, beside the stream that goes on with the others.

The new copy replaces the old one in one commit, at its own LSN. Readers of the lake have the old rows until then.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import psycopg
from psycopg import Connection

from cdc.config.settings import CAPTURE
from cdc.connect.capture import connector, topics
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector_state import look_up
from cdc.connect.source import heartbeat, publication, schema_history
from cdc.connect.source.access import connection as source
from cdc.core.errors import CdcError
from cdc.core.fail_points import reach
from cdc.core.table import Table, TableName
from cdc.core.table_state import ACTIVE
from cdc.core.text.plural import format_count
from cdc.log.clients.topics import Admin
from cdc.progress import Progress
from cdc.run.copy.resync_queue import ResyncResult
from cdc.run.copy.snapshot_copy import (
    NOTHING_COPIED,
    CopyContext,
    CopyReceiver,
    CopyResult,
    copy_on_temporary_slot,
    copy_with_restarts,
    start_capture,
)
from cdc.run.health.continuity import check_source
from cdc.run.lease import COPIES
from cdc.run.pipeline import Pipeline
from cdc.run.spark.errors import to_cdc_error
from cdc.run.tables.preflight import check_tables, describe_skipped
from cdc.run.tables.schema_check import list_parted
from cdc.run.tables.selection import find_uncopied, list_followed
from cdc.sinks.lake.follower import DeltaFollower


def resync_tables(
    pipeline: Pipeline,
    say: Callable[[str], None],
    progress: Progress,
    names: Collection[TableName],
) -> ResyncResult:
    """Copy these tables as they are in the source now. Raises CdcError when none of them can be copied.

    `pipeline`: opened for this copy alone.
    """
    with (
        pipeline.leases.hold(COPIES),
        pipeline.open_source() as connection,
        pipeline.open_connect() as client,
        closing(pipeline.lake_follower) as follower,
    ):
        wanted = _sort_names(pipeline, connection, follower, names)
        if not wanted.to_copy:
            return ResyncResult(wanted.done, wanted.obsolete, None)
        # a copy starts the connector, which somebody wants to rest
        if (pause := pipeline.requests.read_pause(CAPTURE)) and rests(pipeline, client):
            return ResyncResult(wanted.done, wanted.obsolete, pause)
        # the connector goes on with these, whether the new tables are accepted or not
        others = sorted({*list_followed(pipeline)} - {*wanted.to_copy})
        registered = check_source(pipeline, connection)
        context = CopyContext(pipeline, connection, client, others, registered, say, progress)
        tried = _copy_or_explain(context, follower, wanted.to_copy)
    # without the lease: whoever hears of a copy may start another
    for line in tried.lines:
        say(line)
    return ResyncResult(wanted.done | tried.copied, wanted.obsolete, tried.failure)


def rests(pipeline: Pipeline, client: ConnectClient) -> bool:
    """Does the connector rest, as somebody wants it to?"""
    return look_up(client, pipeline.settings.connect.connector).idle is not None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Requested tables: to be copied, copied by somebody else meanwhile, and dropped before anybody copied them."""

    to_copy: Sequence[TableName]
    done: frozenset[TableName]
    obsolete: frozenset[TableName]


@dataclass(frozen=True, slots=True)
class _Tried:
    """The tables that were copied, why others were not, and the lines to say."""

    copied: frozenset[TableName]
    failure: CdcError | None
    lines: Sequence[str]


def _sort_names(
    pipeline: Pipeline, connection: Connection, follower: DeltaFollower, names: Collection[TableName]
) -> _Wanted:
    # An earlier try that was cut off, or a bootstrap, has copied these. A second copy would replace rows that the
    # stream has applied since, above the second copy's snapshot.
    done = frozenset(names).intersection(follower.tables.select(*ACTIVE))
    new = frozenset(names) - {*follower.bookmarks(), *pipeline.settings.selection.names}
    obsolete = new - find_uncopied(connection, pipeline)
    return _Wanted(sorted(set(names) - obsolete - done), done, obsolete)


def _copy_or_explain(context: CopyContext, follower: DeltaFollower, names: Sequence[TableName]) -> _Tried:
    known = follower.bookmarks()
    try:
        result, failure = _copy_acceptable(context, follower, names)
    except Exception as error:  # noqa: BLE001 - also what a session raises that has died meanwhile
        # tables whose copies are committed join now, not when the rest is copied
        committed = frozenset(names).intersection(follower.tables.select(*ACTIVE))
        lines = [_describe_done(name, known) for name in sorted(committed)]
        return _Tried(committed, _explain_failure(context, error), lines)
    lines = [f"{_describe_done(name, known)}: {format_count(rows, 'row')} copied" for name, rows in result.rows.items()]
    copied = [table.table for name, table in follower.tables.all().items() if name in result.rows]
    lines += map(str, describe_skipped(context.pipeline, copied))
    return _Tried(frozenset(result.rows), failure or next(iter(result.refused.values()), None), lines)


def _copy_acceptable(
    context: CopyContext, follower: DeltaFollower, names: Sequence[TableName]
) -> tuple[CopyResult, CdcError | None]:
    """Copy those of these tables that can be followed as they are now; also returns why the first other one cannot."""
    pipeline, client, capture = context.pipeline, context.client, context.pipeline.settings.connect.connector
    tables, refusals = check_tables(context.connection, pipeline, names, client.extensions(), context.captured)
    accepted = [table for table in tables if table.name not in refusals]
    if connector.failure(client, capture) and connector.captures(client, capture, names):
        # it may have failed at one of these tables: without them, it goes on behind their changes in the log
        start_capture(context)
    captured = sorted([*(table.name for table in accepted), *context.captured])
    with_accepted = replace(context, captured=captured)
    if accepted:
        follower.prepare(accepted)
    result = publish_and_copy(with_accepted, follower, accepted) if accepted else NOTHING_COPIED
    return result, next((reasons[0] for reasons in refusals.values()), None)


def publish_and_copy(context: CopyContext, receiver: CopyReceiver, tables: Sequence[Table]) -> CopyResult:
    """Copy these tables beside the stream, which is told by a heartbeat behind the copies."""
    pipeline, names = context.pipeline, [table.name for table in tables]
    # a table that was dropped and made again has left the publication
    publication.publish(context.connection, pipeline.settings.source, names, list_parted(pipeline, names))
    schema_history.note_published(context.connection, pipeline.settings.source, names)
    reach("resync.published")
    with Admin(pipeline.settings.log) as admin:
        topics.ensure(admin, topics.change_topics(pipeline.settings.log, names))
    start_capture(context)
    result = copy_with_restarts(context, copy_on_temporary_slot, receiver, names)
    reach("resync.copied")
    # The copies join with the next transaction: this one, so that an idle source need not wait for its heartbeat. On a
    # new session: the context's was silent for as long as the copies took, and may have ended.
    with pipeline.open_source() as connection:
        heartbeat.write_heartbeat(connection, pipeline.settings.source, pipeline.name, "copied again")
    return result


def _explain_failure(context: CopyContext, error: Exception) -> CdcError:
    if isinstance(error, CdcError):
        return error
    if isinstance(error, psycopg.Error):
        return source.explain(context.pipeline.settings.source, context.connection, error)
    return to_cdc_error("the copy", error)


def _describe_done(name: TableName, known: Collection[TableName]) -> str:
    return f"{name} {'is copied again' if name in known else 'joins'}"
