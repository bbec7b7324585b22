"""Copies tables again whose schema has changed, beside the stream that goes on with the others.

The new copy takes the old one's place in one commit, on its own LSN; who reads the lake has the old rows until then.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import partial

from psycopg import OperationalError
from pyspark.sql import SparkSession

from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError
from cdc.core.plural import format_count
from cdc.core.position import Lsn
from cdc.core.table import Table, TableName
from cdc.log.clients.topics import Admin
from cdc.run.background import run_in_background
from cdc.run.copy.snapshot_copy import (
    NOTHING_COPIED,
    CopyContext,
    CopyResult,
    copy_on_temporary_slot,
    copy_with_restarts,
    start_capture,
)
from cdc.run.lease import hold_lease
from cdc.run.pipeline import delta_follower
from cdc.run.progress import Bars
from cdc.run.spark.errors import to_cdc_error
from cdc.run.tables.preflight import check_tables, describe_skipped
from cdc.run.tables.selection import find_uncopied, list_followed
from connect.capture import connector, topics
from connect.capture.connect_client import ConnectClient
from connect.source import connection as source
from connect.source import heartbeat, publication, registration, schema_history
from sinks.lake.follower import DeltaFollower

LAST_COPY_SECONDS = 60.0
AGAIN_SECONDS = 10.0
"""Until a copy is tried again that could not be made: the table may be there again."""
REST = 10
"""So many times as long as a try took, if that is longer, is waited for the next: it may have read a large table."""

CopyTables = Callable[[Collection[TableName]], "ResyncResult"]
"""Copies tables; raises CdcError when none of them can be."""


def backoff_seconds(took: float, *, alone: bool) -> float:
    """Until tables that could not be copied are tried again; `alone`: none that could were in the try.

    What others that were copied took is none of theirs: the next try, without those, says what it takes.
    """
    return max(AGAIN_SECONDS, REST * took) if alone else AGAIN_SECONDS


class ResyncQueue:
    """What is to be copied again, and what has been: the stream asks for copies, and takes them in.

    `here`: are they made in this process? Elsewhere, nobody here can say when, and nothing is ever pending.
    """

    def __init__(self, *, here: bool = True) -> None:
        self.here = here
        self._changed = threading.Condition()
        self._wanted: set[TableName] = set()
        self._refused: set[TableName] = set()
        self._copied: set[TableName] = set()
        self._rest_until: dict[TableName, float] = {}
        # while a try goes on: it may have copied them before that
        self._wanted_since: set[TableName] = set()
        self.joined = Lsn(0)
        """Who has reached this LSN has all tables that were copied again."""

    @property
    def is_pending(self) -> bool:
        """Is there a table that can be copied again, and takes no part yet?"""
        with self._changed:
            return bool((self._wanted - self._refused) | self._copied)

    def want(self, names: Iterable[TableName]) -> None:
        """Have these tables copied again."""
        with self._changed:
            wanted = set(names) if self.here else set()
            self._wanted |= wanted
            self._wanted_since |= wanted
            self._changed.notify_all()

    def copied(self) -> Collection[TableName]:
        """The tables whose copies wait to be taken in."""
        with self._changed:
            return set(self._copied)

    def taken_in(self, names: Collection[TableName], lsn: Lsn) -> None:
        """These take part again, for who has reached this LSN."""
        with self._changed:
            self._copied -= set(names)
            self.joined = Lsn(max(self.joined, lsn))

    def run(self, copy: CopyTables, say: Callable[[str], None], done: threading.Event) -> None:
        """Copy what is wanted, until `done` is set."""
        said = ""
        while not done.is_set():
            with self._changed:
                names = {name for name in self._wanted if self._rest_until.get(name, 0.0) <= time.monotonic()}
                if not names:
                    self._changed.wait(0.2)
                    continue
                self._wanted_since = set()
            began = time.monotonic()
            outcome = _try_copy(copy, names)
            with self._changed:
                self._take_note(names, outcome, time.monotonic() - began)
            left = names - outcome.copied - outcome.void
            # of several values that no follower holds, any may be the first to be met
            if left and outcome.failure and _reason_of(outcome.failure) != said:
                said = _reason_of(outcome.failure)
                say(f"not copied again yet: {outcome.failure}")

    def _take_note(self, tried: Set[TableName], outcome: "ResyncResult", seconds: float) -> None:
        done = outcome.copied | outcome.void
        self._wanted -= done - self._wanted_since
        self._copied |= outcome.copied
        refused = tried - done
        self._refused = (self._refused & self._wanted) - tried | refused
        rested = time.monotonic() + backoff_seconds(seconds, alone=refused == tried)
        self._rest_until = dict.fromkeys(refused, rested) | {
            name: until for name, until in self._rest_until.items() if name in self._wanted - tried
        }


def _reason_of(failure: CdcError) -> str:
    return failure.what.partition(", where ")[0]


def run_resyncs(renewal: ResyncQueue, copy: CopyTables, say: Callable[[str], None]) -> AbstractContextManager[None]:
    """What is wanted is copied for as long as the context lasts."""
    # a copy that takes longer than that is broken off with the process, and made again by the next
    return run_in_background(partial(renewal.run, copy, say), "renewal", LAST_COPY_SECONDS)


@dataclass(frozen=True, slots=True)
class ResyncResult:
    """The tables that were copied, those that nobody wants any more, and what kept others from being copied."""

    copied: frozenset[TableName]
    void: frozenset[TableName]
    failure: CdcError | None


def _try_copy(copy: CopyTables, names: Collection[TableName]) -> ResyncResult:
    try:
        return copy(names)
    except CdcError as error:
        return ResyncResult(frozenset(), frozenset(), error)
    except Exception as error:  # noqa: BLE001 - a thread that ends in silence looks like a copy that takes long
        return ResyncResult(frozenset(), frozenset(), to_cdc_error("the copy", error))


def _publish_and_copy(work: CopyContext, follower: DeltaFollower, tables: Sequence[Table]) -> CopyResult:
    """Publish, capture and copy these tables beside the others."""
    settings, names = work.settings, [table.name for table in tables]
    # one that was made again is not in it any more
    publication.publish(work.connection, settings.source.publication, names)
    schema_history.note_published(work.connection, settings.source, names)
    with Admin(settings.log) as admin:
        topics.ensure(admin, topics.of_tables(settings.log, names))
    follower.prepare(tables)
    start_capture(work)
    copied = copy_with_restarts(work, copy_on_temporary_slot, follower, names)
    # the copies are taken in with the next transaction: an idle source would let them wait for its heartbeat. By a new
    # session: the work's own has said nothing for as long as they took, and may have ended
    with source.connected(settings.source) as connection:
        heartbeat.write_heartbeat(connection, settings.source, settings.pipeline.name, "copied again")
    return copied


def resync_tables(
    settings: PipelineSettings,
    spark: SparkSession,
    say: Callable[[str], None],
    bars: Bars,
    names: Collection[TableName],
) -> ResyncResult:
    """Copy these tables as they are in the source now. Raises CdcError with what keeps all of them from it."""
    with (
        hold_lease(settings, "bootstrap"),
        source.connected(settings.source) as connection,
        ConnectClient(settings.connect.url) as client,
        closing(delta_follower(settings)) as follower,
    ):
        known = follower.bookmarks()
        # copied by a try that was broken off behind that, or by a bootstrap: with a second copy under a stream that
        # follows them, they would lose what it has applied behind its snapshot
        there = frozenset(names) & known.keys() - {stop.name for stop in follower.stops()}
        # a table that was made, and is gone before anybody copied it
        void = frozenset(names) - {*known, *settings.selection.names} - find_uncopied(connection, settings, follower)
        wanted = sorted(set(names) - void - there)
        if not wanted:
            return ResyncResult(there, void, None)
        others = sorted({*list_followed(settings, follower)} - {*wanted})
        stands = registration.registered(connection, settings.source, settings.pipeline.name)
        assert stands is not None
        work = CopyContext(settings, connection, client, spark, others, stands, say, bars)
        try:
            copied, failure = _copy_acceptable(work, follower, wanted)
        except Exception as error:  # noqa: BLE001 - also what a session raises that has died meanwhile
            # what was taken in before that takes part now, and not when the rest has its copy
            taken_in = frozenset(wanted) & follower.bookmarks().keys() - {stop.name for stop in follower.stops()}
            for name in sorted(taken_in):
                say(_describe_done(name, known))
            return ResyncResult(there | taken_in, void, _explain_failure(work, error))
        lake_only = describe_skipped(settings, [table for table in follower.all_tables() if table.name in copied.rows])
    for name, rows in copied.rows.items():
        say(f"{_describe_done(name, known)}: {format_count(rows, 'row')} copied")
    for told in lake_only:
        say(str(told))
    return ResyncResult(there | copied.rows.keys(), void, failure or next(iter(copied.unfit.values()), None))


def _explain_failure(work: CopyContext, error: Exception) -> CdcError:
    if isinstance(error, CdcError):
        return error
    if isinstance(error, OperationalError) and work.connection.broken:
        return source.went_away(work.settings.source, error)
    return to_cdc_error("the copy", error)


def _describe_done(name: TableName, known: Collection[TableName]) -> str:
    return f"{name} {'is copied again' if name in known else 'joins'}"


def _copy_acceptable(
    work: CopyContext, follower: DeltaFollower, wanted: Sequence[TableName]
) -> tuple[CopyResult, CdcError | None]:
    """Copy those of these tables that can be followed as they are, beside all that `work` captures by now; with why the
    others cannot."""
    settings, client, capture = work.settings, work.client, work.settings.connect.connector
    tables, refusals = check_tables(work.connection, settings, wanted, client.extensions(), work.captured)
    fit = [table for table in tables if table.name not in refusals]
    if connector.failure(client, capture) and connector.captures(client, capture, wanted):
        # at one of these, perhaps, as it was or is: it goes on behind what they have in the log by now
        start_capture(work)
    captured = sorted([*(table.name for table in fit), *work.captured])
    copied = _publish_and_copy(replace(work, captured=captured), follower, fit) if fit else NOTHING_COPIED
    return copied, next((found[0] for found in refusals.values()), None)
