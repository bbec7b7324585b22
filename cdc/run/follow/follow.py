"""`cdc follow`: one stream a follower, in one Spark application, until it is told to stop."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from pyspark.sql import SparkSession

from cdc.config.settings import PipelineSettings
from cdc.core.errors import (
    CdcError,
    HistoryLostError,
    IncompleteError,
    PreconditionError,
    RefusedError,
    UnreachableError,
)
from cdc.core.plural import format_count
from cdc.core.position import Lsn, Position, format_lsn
from cdc.core.table import TableName
from cdc.log.clients.reader import Reader
from cdc.log.clients.standing_consumer import StandingConsumer
from cdc.log.confirmed import ConfirmedLsns
from cdc.log.runs import RunReader
from cdc.log.transaction_reader import NewEnds
from cdc.run.capture.heartbeat_chain import HeartbeatChain, find_verifiable_lsn
from cdc.run.copy.fill import TableFiller
from cdc.run.copy.resync import ResyncQueue, ResyncResult, resync_tables, run_resyncs
from cdc.run.follow.capture_monitor import CaptureMonitor
from cdc.run.follow.feed_stream import POLL_SECONDS, RING_SECONDS, FeedStream, FeedStreamHooks
from cdc.run.follow.lake_stream import BatchProgress, LakeStream, LakeStreamHooks, Readers
from cdc.run.follow.large_runs import LargeRunReader
from cdc.run.follow.maintenance import run_maintenance
from cdc.run.follow.schema_changes import SchemaChanges
from cdc.run.follow.stop_requests import StopRequests
from cdc.run.follow.streams import ProblemReporter, SparkStream, Stream, StreamRunner
from cdc.run.lease import Lease, hold_lease
from cdc.run.pipeline import delta_follower, fed_followers, feed_of
from cdc.run.progress import LineBars
from cdc.run.scratch import open_scratch
from cdc.run.shutdown import StopEvent, stop_on_signals
from cdc.run.spark.arenas import limit_arenas
from cdc.run.spark.errors import SparkEndedError, check_spark
from cdc.run.spark.gc_tuning import relax_gc
from cdc.run.tables import problems as left_behind
from cdc.run.tables.history_check import check_history, check_log
from cdc.run.tables.schema_check import find_changed_choices, find_unlogged_changes
from cdc.run.tables.selection import find_new_tables
from connect.capture.connector import placeholder
from connect.source import connection as source
from connect.source import heartbeat
from sinks.lake.feed.change_cache import ChangeCache
from sinks.lake.feed.feed import LakeFeed
from sinks.lake.follower import DeltaFollower

Say = Callable[[str], None]
ENDING = (RefusedError, SparkEndedError)
"""What ends the process, and is its last line: who was overtaken in one follower is in the way of the other one."""
LOOK_SECONDS = 10.0
"""Between two looks at the capture, the leases and Spark's Java."""


def follow(
    settings: PipelineSettings,
    start_spark: Callable[[], SparkSession],
    names: Sequence[str],
    say: Say,
    *,
    until_caught_up: bool = False,
    stopping: threading.Event | None = None,
) -> None:
    """Run the streams of these followers until stopped or, on request, until they have what the source has now.

    Spark starts once the followers are ours and the source is the one that they were copied from. Whoever runs it in
    a thread stops it by `stopping`. A follower behind the lake waits for whatever somebody may undo, unless it is to
    catch up only; one that fails for good stops alone, the lake with all that it feeds, and who was overtaken by
    another process ends. The first failure is raised when all have ended; on request, IncompleteError where all have
    caught up but for tables that are stopped or keys that are held.
    """
    _tune_memory()
    stopping = stopping or threading.Event()
    with ExitStack() as held:
        # before all checks: what they find is not to be changed by another writer behind them
        leases = {name: held.enter_context(hold_lease(settings, name)) for name in names}
        check_log(settings)
        if until_caught_up:
            _check_lake_followed(settings, names)
        stops, renewal = StopRequests(), ResyncQueue(here=settings.delta[0] in names)
        _check_source(settings, say, stops, renewal)
        target = mark_source_end(settings) if until_caught_up else None
        capture = CaptureMonitor(settings, target, say, stops, renewal)
        told = FollowContext(target, say, stops, renewal, leases)
        streams = ProcessStreams(settings, names, start_spark(), stopping, told)
        if settings.delta[0] in names:
            held.enter_context(run_resyncs(renewal, streams.resync, say))
        held.enter_context(stop_on_signals(stopping, say))
        say(f"following: {', '.join(names)}")
        with ThreadPoolExecutor(len(names)) as threads:
            running = [threads.submit(streams.run, name) for name in names]
            hopeless = _wait_for_streams(running, partial(_find_fatal, capture, leases.values()), stopping)
            failures = [failure for each in running if (failure := each.result())]
    _raise_first([hopeless, *failures])
    if until_caught_up:
        _raise_first([_find_left_behind(settings, names)])


def _raise_first(failures: Sequence[CdcError | None]) -> None:
    """Raise the first of these, what ended the process before what a stream met for that."""
    for failure in sorted(filter(None, failures), key=lambda failure: not isinstance(failure, ENDING)):
        raise failure


def _find_left_behind(settings: PipelineSettings, names: Sequence[str]) -> CdcError | None:
    """The tables and keys that have not caught up, and will not by themselves."""
    lake, fed = delta_follower(settings), fed_followers(None, settings)
    held = [left_behind.describe_held_keys(name, *counts) for name, counts in sorted(lake.count_blocked().items())]
    behind = [left_behind.describe_stops_in(settings, name, fed[name]) for name in names if name in fed]
    found = [*left_behind.describe_stops(settings, lake), *chain.from_iterable(behind), *held]
    return IncompleteError(found) if found else None


def _find_fatal(capture: CaptureMonitor, leases: Iterable[Lease]) -> CdcError | None:
    """What ends this process whatever its streams do: another has taken over, Java has ended, no more is captured."""
    taken = next(filter(None, (each.check() for each in leases)), None)
    return taken or check_spark() or capture.hopeless()


def _wait_for_streams(
    running: Sequence[Future[CdcError | None]], hopeless: Callable[[], CdcError | None], stopping: threading.Event
) -> CdcError | None:
    """Wait for the streams; stop them when what they wait for will never come, which is returned."""
    found = None
    try:
        while not found and wait(running, LOOK_SECONDS).not_done:
            found = hopeless()
    finally:
        # also where the second Ctrl-C comes through here: the pool waits for streams that nobody else would stop
        stopping.set()
    return found


def _check_source(settings: PipelineSettings, say: Say, stops: StopRequests, renewal: ResyncQueue) -> None:
    """The followers need the log, not the source: one that does not answer is no reason to stand still."""
    lake = delta_follower(settings)
    renewal.want(stop.name for stop in lake.stops() if stop.copy)
    stops.put(find_changed_choices(settings))
    for told in left_behind.describe_stops(settings, lake):
        say(str(told))
    try:
        check_history(settings)
        stops.put({name: failure.what for name, failure in find_unlogged_changes(settings).items()})
        renewal.want(find_new_tables(settings))
    except UnreachableError as error:
        say(f"following what the log has; {error.what}")


def _tune_memory() -> None:
    """Let a process that reads many messages for long look seldom for garbage, and give memory back."""
    relax_gc()
    limit_arenas()


def mark_source_end(settings: PipelineSettings) -> Lsn:
    """Write a heartbeat behind everything that is committed now: who has passed this LSN has all of it."""
    with source.connected(settings.source) as connection:
        # its commit flushes what others committed asynchronously: `now`, the end as written, then covers that, too
        heartbeat.write_heartbeat(connection, settings.source, settings.pipeline.name, "caught up?")
        now = source.current_lsn(connection)
        # and this one commits above it: on an idle source no position would ever pass it
        heartbeat.write_heartbeat(connection, settings.source, settings.pipeline.name, "caught up!")
    return now


def _check_lake_followed(settings: PipelineSettings, names: Sequence[str]) -> None:
    """Raise PreconditionError when nobody follows the lake that all others are fed from: they would wait for ever."""
    lake = settings.delta[0]
    if lake in names:
        return
    # a lease that can be had is held by nobody
    with suppress(RefusedError), hold_lease(settings, lake):
        raise PreconditionError(
            f"{', '.join(names)} cannot catch up: nobody follows {lake}, which feeds them",
            f"run `cdc follow`, or add --follower {lake}",
        )


@dataclass(frozen=True, slots=True)
class FollowContext:
    """What the streams go by: the LSN to reach, who hears of it, the tables to be stopped, and to be copied again; and
    the leases, in which it is noted how the followers are."""

    target: Lsn | None
    say: Say
    stops: StopRequests
    renewal: ResyncQueue
    leases: Mapping[str, Lease]


class ProcessStreams:
    """What the streams of one process share."""

    def __init__(
        self,
        settings: PipelineSettings,
        names: Sequence[str],
        spark: SparkSession,
        stopping: threading.Event,
        told: FollowContext,
    ) -> None:
        self._settings = settings
        self._poll_seconds = RING_SECONDS if settings.delta[0] in names else POLL_SECONDS
        self.spark = spark
        self._stopping = stopping
        self._told, self._say = told, told.say
        self._fed = fed_followers(spark, settings)
        # what nobody of this process follows is not kept for anybody
        self._recent = ChangeCache() if set(names) - {settings.delta[0]} else ChangeCache(0)

    @property
    def resync(self) -> Callable[[Collection[TableName]], ResyncResult]:
        """Copies tables beside the streams."""
        return partial(resync_tables, self._settings, self.spark, self._say, LineBars(self._say))

    def run(self, name: str) -> CdcError | None:
        done, trouble = StopEvent(self._stopping), self._trouble(name)
        is_lake = name == self._settings.delta[0]
        # what is asked for once ends with what keeps it from that; the lake's trouble is everybody's
        waits = None if is_lake or self._told.target is not None else trouble
        with ExitStack() as held:
            start = self._lake_starter(done, held) if is_lake else self._fed_starter(name, done, trouble, held)
            failure = StreamRunner(name, start, done, self._say, waits).run()
        if failure:
            trouble.meet(failure)
        if failure and not isinstance(failure, ENDING):
            self._say(f"{name} stopped: {failure}")
        if failure and (is_lake or isinstance(failure, ENDING)):
            self._stopping.set()
        return failure

    def _trouble(self, name: str) -> ProblemReporter:
        def tell(failure: CdcError | None) -> None:
            self._told.leases[name].note(failure)
            if failure is None:
                self._say(f"{name}: goes on")

        return ProblemReporter(tell)

    def _lake_starter(self, done: StopEvent, held: ExitStack) -> Callable[[], Stream]:
        return lambda: self._lake_stream(partial(self._reached, self._settings.delta[0], done), done, held)

    def _fed_starter(
        self, name: str, done: StopEvent, trouble: ProblemReporter, held: ExitStack
    ) -> Callable[[], Stream]:
        follower, feed = self._fed[name], self._feed(name)
        held.callback(follower.close)
        # one for all tries: it knows what was tried in vain a moment ago
        filler = TableFiller(name, follower, feed, self._say)
        heard = FeedStreamHooks(partial(self._reached, name, done), trouble.end)
        return lambda: FeedStream(follower, feed, filler, self._recent, heard, self._poll_seconds)

    def _feed(self, name: str) -> LakeFeed:
        return feed_of(self._settings, name, self.spark, self._recent)

    def _lake_stream(self, reached: Callable[[BatchProgress], bool], done: StopEvent, held: ExitStack) -> SparkStream:
        s = self._settings
        # what the last try held, in this order: the upkeep, the follower whose tables it works on, the consumers
        held.close()
        unsent = placeholder(s.pipeline.name)
        small = RunReader(held.enter_context(closing(StandingConsumer(s.log))), s.log.prefix, unsent)
        large = LargeRunReader(self.spark, s.log, unsent, small)
        # ENDs are read while runs are: each has a consumer of its own
        ends = NewEnds(held.enter_context(closing(StandingConsumer(s.log, tombstones=True))), s.log.prefix)
        follower = delta_follower(s, self._recent)
        held.callback(follower.close)
        readers = Readers(small, large, ends, self._chain(follower, small))
        # no table of the source: the lake's own may lack columns that a newer version of ours has
        follower.prepare([])
        held.enter_context(run_maintenance(follower, self._stand, self._say))
        schema = SchemaChanges(follower, small, s.source)
        watched = LakeStreamHooks(reached, self._say, self._told.stops, self._told.renewal, done.wait)
        stream = LakeStream(follower, readers, schema, s.log, s.delta[1], watched)
        scratch = open_scratch(Path(s.pipeline.state))
        return SparkStream(self.spark, s.delta[0], s.follow.trigger_seconds, stream, scratch)

    def _chain(self, follower: DeltaFollower, reader: RunReader) -> HeartbeatChain:
        """What follows the heartbeats behind the lake's position."""
        s, position = self._settings, follower.position()
        if position is None:
            raise HistoryLostError("the lake has no copy to go on from", "run `cdc bootstrap` first")
        with Reader(s.log) as log:
            since = find_verifiable_lsn(log, s.log.prefix, s.source, position)
        confirmed = ConfirmedLsns(s.log, position.log_start)
        return HeartbeatChain(reader, s.source, s.pipeline.name, since, confirmed.include)

    def _stand(self) -> list[Position] | None:
        """Where the followers behind the lake stand; None while one does not answer, since it may need any cut.

        The upkeep asks in a thread of its own, and so through clients of its own.
        """
        try:
            positions = [follower.position() for follower in fed_followers(None, self._settings).values()]
        except CdcError:
            return None
        return [position for position in positions if position is not None]

    def _reached(self, name: str, done: StopEvent, progress: BatchProgress) -> bool:
        """Tell what a batch has done; False when its stream is not to go on."""
        if progress.changes:
            self._say(f"{name}: {format_count(progress.changes, 'change')}, at {format_lsn(progress.position.lsn)}")
        target, renewal = self._told.target, self._told.renewal
        # a table that is being copied again has not caught up; where its copy takes part, all of them have
        if target is not None and not renewal.is_pending and progress.position.lsn >= max(target, renewal.joined):
            self._say(f"{name}: caught up, at {format_lsn(progress.position.lsn)}")
            done.set()
        return not done.is_set()
