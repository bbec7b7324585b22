"""`cdc follow`: one stream a follower, in one Spark application, until it is told to stop."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType

from pyspark.sql import SparkSession

from cdc.config.settings import PipelineSettings
from cdc.core.counted import counted
from cdc.core.errors import (
    CdcError,
    HistoryLostError,
    IncompleteError,
    PreconditionError,
    RefusedError,
    UnreachableError,
)
from cdc.core.position import Lsn, Position, format_lsn
from cdc.log.clients.reader import Reader
from cdc.log.clients.standing_consumer import StandingConsumer
from cdc.log.new_ends import NewEnds
from cdc.log.runs import RunReader
from cdc.run import left_behind
from cdc.run.acceptance import unfit
from cdc.run.capture_chain import CaptureChain, find_commit, verifiable_from
from cdc.run.capture_watch import CaptureWatch
from cdc.run.collector import seldom
from cdc.run.feed_stream import ASKED_SECONDS, RUNG_SECONDS, FeedStream
from cdc.run.history_check import check_history, check_log
from cdc.run.lake_stream import LakeStream, Progress, Readers, Watched
from cdc.run.large_runs import LargeRunReader
from cdc.run.memory import bound_arenas
from cdc.run.pipeline import delta_follower, fed_followers, feed_of, lease
from cdc.run.progress import SaidBars
from cdc.run.renewal import Renewal, copy_again, renewed
from cdc.run.schema_changes import SchemaChanges
from cdc.run.schema_check import otherwise_chosen, unseen
from cdc.run.selected import came
from cdc.run.stops import Stops
from cdc.run.streams import Query, Runner, Stream
from cdc.run.upkeep import kept_up
from connect import heartbeat, source
from connect.connector import placeholder
from sinks.lake.feed import LakeFeed
from sinks.lake.follower import DeltaFollower
from sinks.lake.recent import RecentChanges

Say = Callable[[str], None]
POLL_SECONDS, LOOK_SECONDS = 0.2, 10.0
"""Between two looks at whether to stop, and at the capture."""


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
    a thread stops it by `stopping`. A follower that fails stops alone, the lake with all that it feeds; the first
    failure is raised when all have ended, or that of a capture that will never send what was asked for; on request,
    IncompleteError where all have caught up but for tables that are stopped or keys that are held.
    """
    seldom()
    bound_arenas()
    stopping = stopping or threading.Event()
    with ExitStack() as held:
        # before all checks: what they find is not to be changed by another writer behind them
        for name in names:
            held.enter_context(lease(settings, name))
        check_log(settings)
        if until_caught_up:
            _check_fed(settings, names)
        stops, renewal = Stops(), Renewal(here=settings.delta[0] in names)
        _check_source(settings, say, stops, renewal)
        target = mark(settings) if until_caught_up else None
        capture = CaptureWatch(settings, target, say, stops, renewal)
        following = _Following(settings, names, start_spark(), stopping, Told(target, say, stops, renewal))
        if settings.delta[0] in names:
            copy = partial(copy_again, settings, following.spark, say, SaidBars(say))
            held.enter_context(renewed(renewal, copy, say))
        # only now: PySpark takes SIGINT for itself when a session starts
        held.enter_context(_signals(stopping, say))
        say(f"following: {', '.join(names)}")
        with ThreadPoolExecutor(len(names)) as threads:
            running = [threads.submit(following.run, name) for name in names]
            hopeless = _attended(running, capture, stopping)
            failures = [failure for each in running if (failure := each.result())]
    for failure in [*failures, hopeless, _left(settings) if until_caught_up else None]:
        if failure:
            raise failure


def _left(settings: PipelineSettings) -> CdcError | None:
    """The tables and keys that have not caught up, and will not by themselves."""
    lake = delta_follower(settings)
    held = [left_behind.held(name, *counts) for name, counts in sorted(lake.held().items())]
    found = [*left_behind.stopped(settings, lake), *held]
    return IncompleteError(found) if found else None


def _attended(
    running: Sequence[Future[CdcError | None]], capture: CaptureWatch, stopping: threading.Event
) -> CdcError | None:
    """Wait for the streams; stop them when what they wait for will never come, which is returned."""
    hopeless = None
    try:
        while not hopeless and wait(running, LOOK_SECONDS).not_done:
            hopeless = capture.hopeless()
    finally:
        # also where the second Ctrl-C comes through here: the pool waits for streams that nobody else would stop
        stopping.set()
    return hopeless


def _check_source(settings: PipelineSettings, say: Say, stops: Stops, renewal: Renewal) -> None:
    """The followers need the log, not the source: one that does not answer is no reason to stand still."""
    lake = delta_follower(settings)
    renewal.want(stop.name for stop in lake.stopped() if stop.copy)
    stops.put(otherwise_chosen(settings))
    for told in left_behind.stopped(settings, lake):
        say(str(told))
    try:
        check_history(settings)
        stops.put({name: failure.what for name, failure in unseen(settings).items()})
        renewal.want(came(settings))
    except UnreachableError as error:
        say(f"following what the log has; {error.what}")


def mark(settings: PipelineSettings) -> Lsn:
    """Write a heartbeat behind everything that is committed now: who has passed this LSN has all of it."""
    with source.connected(settings.source) as connection:
        # its commit flushes what others committed asynchronously: `now`, the end as written, then covers that, too
        heartbeat.write_heartbeat(connection, settings.source, settings.pipeline.name, "caught up?")
        now = source.current_lsn(connection)
        # and this one commits above it: on an idle source no position would ever pass it
        heartbeat.write_heartbeat(connection, settings.source, settings.pipeline.name, "caught up!")
    return now


def _check_fed(settings: PipelineSettings, names: Sequence[str]) -> None:
    """Raise PreconditionError when nobody follows the lake that all others are fed from: they would wait for ever."""
    lake = settings.delta[0]
    if lake in names:
        return
    # a lease that can be had is held by nobody
    with suppress(RefusedError), lease(settings, lake):
        raise PreconditionError(
            f"{', '.join(names)} cannot catch up: nobody follows {lake}, which feeds them",
            f"run `cdc follow`, or add --follower {lake}",
        )


@dataclass(frozen=True, slots=True)
class Told:
    """What the streams go by: the LSN to reach, who hears of it, the tables to be stopped, and to be copied again."""

    target: Lsn | None
    say: Say
    stops: Stops
    renewal: Renewal


class _Following:
    """What the streams of one process share."""

    def __init__(
        self,
        settings: PipelineSettings,
        names: Sequence[str],
        spark: SparkSession,
        stopping: threading.Event,
        told: Told,
    ) -> None:
        self._settings = settings
        self._poll_seconds = RUNG_SECONDS if settings.delta[0] in names else ASKED_SECONDS
        self.spark = spark
        self._stopping = stopping
        self._told, self._say = told, told.say
        self._fed = fed_followers(spark, settings)
        # what nobody of this process follows is not kept for anybody
        self._recent = RecentChanges() if set(names) - {settings.delta[0]} else RecentChanges(0)

    def run(self, name: str) -> CdcError | None:
        done = _Stop(self._stopping)
        with ExitStack() as held:
            start = self._starter(name, done, held)
            failure = Runner(name, start, done, self._say).run()
        if failure:
            self._say(f"{name} stopped: {failure}")
        if failure and name == self._settings.delta[0]:
            self._stopping.set()
        return failure

    def _starter(self, name: str, done: "_Stop", held: ExitStack) -> Callable[[], Stream]:
        def reached(progress: Progress) -> bool:
            return self._reached(name, progress, done)

        if name == self._settings.delta[0]:
            return lambda: self._lake_stream(reached, done, held)
        held.callback(self._fed[name].close)
        return lambda: FeedStream(self._fed[name], self._feed(name), self._recent, reached, self._poll_seconds)

    def _feed(self, name: str) -> LakeFeed:
        return feed_of(self._settings, name, self.spark, self._recent)

    def _lake_stream(self, reached: Callable[[Progress], bool], done: "_Stop", held: ExitStack) -> Query:
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
        held.enter_context(kept_up(follower, self._stand, self._say))
        schema = SchemaChanges(follower, small, s.source, partial(unfit, s))
        watched = Watched(reached, self._say, self._told.stops, self._told.renewal, done.wait)
        stream = LakeStream(follower, readers, schema, s.log, s.delta[1], watched)
        return Query(self.spark, s.delta[0], s.follow.trigger_seconds, stream)

    def _chain(self, follower: DeltaFollower, reader: RunReader) -> CaptureChain:
        """What follows the heartbeats behind the lake's position."""
        s, position = self._settings, follower.position()
        if position is None:
            raise HistoryLostError("the lake has no copy to go on from", "run `cdc bootstrap` first")
        with Reader(s.log) as log:
            since = verifiable_from(log, s.log.prefix, s.source, position)
        return CaptureChain(
            reader, s.source, s.pipeline.name, since, partial(find_commit, s.log, position.log_start, until=position)
        )

    def _stand(self) -> list[Position] | None:
        """Where the followers behind the lake stand; None while one does not answer, since it may need any cut.

        The upkeep asks in a thread of its own, and so through clients of its own.
        """
        try:
            positions = [follower.position() for follower in fed_followers(None, self._settings).values()]
        except CdcError:
            return None
        return [position for position in positions if position is not None]

    def _reached(self, name: str, progress: Progress, done: "_Stop") -> bool:
        """Tell what a batch has done; False when its stream is not to go on."""
        if progress.changes:
            self._say(f"{name}: {counted(progress.changes, 'change')}, at {format_lsn(progress.position.lsn)}")
        target, renewal = self._told.target, self._told.renewal
        # a table that is being copied again has not caught up; where its copy takes part, all of them have
        if target is not None and not renewal.is_pending and progress.position.lsn >= max(target, renewal.joined):
            self._say(f"{name}: caught up, at {format_lsn(progress.position.lsn)}")
            done.set()
        return not done.is_set()


class _Stop(threading.Event):
    """Set for one stream when it is done, and for all of them when the process is to stop."""

    def __init__(self, everybody: threading.Event) -> None:
        super().__init__()
        self._everybody = everybody

    def is_set(self) -> bool:
        return super().is_set() or self._everybody.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        # either of two events ends it, and a thread can wait for one only: hence in short turns
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.is_set() and (deadline is None or time.monotonic() < deadline):
            super().wait(POLL_SECONDS if deadline is None else min(POLL_SECONDS, max(deadline - time.monotonic(), 0)))
        return self.is_set()


@contextmanager
def _signals(stopping: threading.Event, say: Say) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM lets the batch at hand end; the second one is the usual kind."""

    def stop(number: int, frame: FrameType | None) -> None:
        say("stopping after this batch; once more to stop at once")
        stopping.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    # handlers can be set in Python's main thread only; whoever runs this in another one stops it by `stopping`
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
