"""`cdc follow`: one stream per follower, in one Spark application, until it is told to stop."""

import resource
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import chain

from cdc.config.settings import VIEWS
from cdc.connect.source import heartbeat
from cdc.connect.source.access import connection as source
from cdc.core.errors import (
    CdcError,
    HistoryLostError,
    IncompleteError,
    PreconditionError,
    RefusedError,
    UnreachableError,
)
from cdc.core.position import Lsn
from cdc.core.text.lines import WarningLine
from cdc.run.background import run_in_background
from cdc.run.catalog.keeper import keep_catalog
from cdc.run.copy.resync_queue import ResyncQueue, run_resyncs
from cdc.run.follow.capture_monitor import CaptureMonitor
from cdc.run.follow.process_streams import ENDING, FollowContext, ProcessStreams, Say
from cdc.run.follow.stop_reports import StopReports
from cdc.run.follow.stop_requests import StopRequests
from cdc.run.guard.begin_anew import finish_plan
from cdc.run.guard.slot_beats import keep_slot_moving
from cdc.run.guard.slot_guard import SlotGuard
from cdc.run.health.slot_drop import SlotDropPlan
from cdc.run.lease import Lease
from cdc.run.pipeline import Pipeline
from cdc.run.rebuilds import drop_regularly
from cdc.run.shutdown import StopEvent, stop_on_signals
from cdc.run.spark.allocator import limit_arenas
from cdc.run.spark.arenas import release_regularly
from cdc.run.spark.errors import check_spark
from cdc.run.spark.gc_tuning import relax_gc
from cdc.run.tables import problems
from cdc.run.tables.column_notices import describe_text_columns
from cdc.run.tables.resume_check import check_log, check_timeline
from cdc.run.tables.schema_check import check_secret, find_changed_choices, find_unlogged_changes, read_followed_tables
from cdc.run.tables.selection import find_new_tables
from cdc.run.trouble_log import trouble_log
from cdc.run.verify.rolling.keep_verifying import verify_beside
from cdc.run.views.kept_histories import describe_stopped_histories
from cdc.run.views.kept_views import describe_stopped_views, find_unfilled_views

LOOK_SECONDS = 10.0
"""Pause between two checks of the capture, the leases and Spark's Java."""


def follow(
    pipeline: Pipeline,
    names: Sequence[str],
    say: Say,
    *,
    until_caught_up: bool = False,
    stopping: threading.Event | None = None,
) -> None:
    """Run the streams of these followers until stopped, or with `until_caught_up` until they have the source's data.

    Spark starts after the leases are taken and the source has been checked against the copies. A caller in another
    thread stops it by `stopping`. A follower behind the lake retries as long as somebody may repair its problem,
    except with `until_caught_up`. One that fails for good stops alone; the lake stops all followers behind it. The
    process ends when another one takes over a follower. Where `source.slot_budget` lets it drop the slot, it begins the
    capture anew behind that, and goes on.

    Raises the first failure once all streams have ended. With `until_caught_up`, raises IncompleteError when
    everything has caught up except stopped tables or held keys.
    """
    _tune_process()
    stopping = stopping or threading.Event()
    may_begin_anew = not until_caught_up and pipeline.lake_name in names
    while not stopping.is_set():
        if may_begin_anew:
            finish_plan(pipeline, say, stopping)
        try:
            _follow_once(pipeline, names, say, stopping, until_caught_up=until_caught_up)
            return
        except HistoryLostError:
            if not may_begin_anew:
                raise
            # of a slot that was lost before the first look at it, or was dropped; or what a stream has met behind that
            with closing(SlotGuard(pipeline, say)) as guard:
                guard.look()
            if SlotDropPlan.read(pipeline) is None:
                raise
        pipeline.look_again()


def bring_on(pipeline: Pipeline, names: Sequence[str], say: Say) -> None:
    """Follow with these followers until they have what the source has now, in this process.

    Stopped tables and held keys are told, and keep nobody from what comes next: the caller looks at those that matter.
    """
    try:
        with pipeline.reopened() as own:
            follow(own, names, say, until_caught_up=True)
    except IncompleteError as left:
        say(f"not all has caught up: {left}")


def _follow_once(
    pipeline: Pipeline, names: Sequence[str], say: Say, stopping: threading.Event, *, until_caught_up: bool
) -> None:
    """Run the streams until `stopping`, or until they end by themselves, which leaves `stopping` as it is."""
    ended = StopEvent(stopping)
    with ExitStack() as held:
        # before all checks: no other writer may change the facts behind them
        leases = {name: held.enter_context(pipeline.leases.hold(name)) for name in names}
        _check_lake(pipeline, names, until_caught_up=until_caught_up)
        stops, resyncs = StopRequests(), ResyncQueue(is_here=pipeline.lake_name in names)
        reports = StopReports(say, resyncs)
        _check_source(pipeline, say, stops, resyncs, reports)
        _say_text_columns(pipeline, say)
        # after the checks, so that a refused start writes nothing into the source
        target = mark_source_end(pipeline) if until_caught_up else None
        monitor = held.enter_context(closing(CaptureMonitor(pipeline, target, say, stops, resyncs)))
        context = FollowContext(target, say, stops, resyncs, reports, leases)
        held.enter_context(trouble_log(pipeline.state))
        held.enter_context(run_in_background(release_regularly, "memory"))
        pipeline.start_spark()
        streams = ProcessStreams(pipeline, names, ended, context)
        if pipeline.lake_name in names:
            held.enter_context(_run_beside(pipeline, resyncs, streams, say))
        held.enter_context(stop_on_signals(stopping, say))
        streams.take_over(names)
        failures = _run_streams(
            streams, leases, partial(_find_fatal, pipeline, monitor, leases, is_awaited=until_caught_up), ended
        )
    _raise_first(failures)
    if until_caught_up:
        pipeline.look_again()
        _raise_first([_find_incomplete(pipeline, names)])


@contextmanager
def _run_beside(pipeline: Pipeline, resyncs: ResyncQueue, streams: ProcessStreams, say: Say) -> Iterator[None]:
    """Run beside the lake's stream what it does not wait for: copies, catalog, slot's beats, leavings, verification."""
    sweep = partial(drop_regularly, pipeline, say)
    with (
        run_resyncs(resyncs, streams.resync, say),
        keep_catalog(pipeline, say),
        keep_slot_moving(pipeline),
        run_in_background(sweep, "rebuilds"),
        verify_beside(pipeline, say),
    ):
        yield


def _tune_process() -> None:
    # this process reads many messages for long
    relax_gc()
    # `cdc follow` has done so before its imports; labs, demos and other jobs have not
    limit_arenas()
    # of each table some files of its index are open, and most systems give 1,024 until a process asks for more
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS refuses what it names as the most
    with suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _run_streams(
    streams: ProcessStreams,
    leases: Mapping[str, Lease],
    find_fatal: Callable[[], CdcError | None],
    stopping: threading.Event,
) -> list[CdcError | None]:
    """Run a stream for each lease to its end; returns the reason to end the process, if any, and each one's failure."""
    # leaving the pool waits for every stream: each ends after its current batch
    with streams.report(), ThreadPoolExecutor(len(leases)) as threads:
        running = [threads.submit(streams.run, name) for name in leases]
        fatal = _wait_for_streams(running, find_fatal, stopping)
        failures = [stream.result() for stream in running]
        # a stream may meet what took its lease away before the next look does
        return [fatal or (_find_lost(leases) if any(failures) else None), *failures]


def _raise_first(failures: Sequence[CdcError | None]) -> None:
    """Raise the first of these failures; one that ended the process comes before those that it caused in streams."""
    for failure in sorted(filter(None, failures), key=lambda failure: not isinstance(failure, ENDING)):
        raise failure


def _find_pause(pipeline: Pipeline, names: Iterable[str]) -> CdcError | None:
    """The pause of one of these followers, or of the lake, which feeds them: none of them would ever catch up."""
    return next(filter(None, map(pipeline.find_pause, names)), None)


def _find_incomplete(pipeline: Pipeline, names: Sequence[str]) -> CdcError | None:
    """The tables and keys that have not caught up, and will not without help."""
    lake, fed = pipeline.lake_follower, pipeline.fed
    held = [
        problems.describe_blocked_keys(name, *counts) for name, counts in sorted(lake.letters.count_blocked().items())
    ]
    behind = [problems.describe_stops_in(pipeline, name, fed[name]) for name in names if name in fed]
    views = describe_stopped_views(pipeline) if VIEWS in names else []
    stops = [*problems.describe_stops(pipeline), *describe_stopped_histories(pipeline)]
    incomplete = [*stops, *views, *chain.from_iterable(behind), *held]
    return IncompleteError(incomplete) if incomplete else None


def _find_fatal(
    pipeline: Pipeline, monitor: CaptureMonitor, leases: Mapping[str, Lease], *, is_awaited: bool
) -> CdcError | None:
    """Find a reason to end the process: a lost lease, an ended Java, or a pause or capture that ends all waiting."""
    pause = _find_pause(pipeline, leases) if is_awaited else None
    return _find_lost(leases) or check_spark() or pause or monitor.find_fatal()


def _find_lost(leases: Mapping[str, Lease]) -> CdcError | None:
    return next(filter(None, (lease.describe_loss() for lease in leases.values())), None)


def _wait_for_streams(
    running: Sequence[Future[CdcError | None]], find_fatal: Callable[[], CdcError | None], stopping: threading.Event
) -> CdcError | None:
    """Wait for the streams to end; stop them, and return the reason, as soon as `find_fatal` has one."""
    fatal = None
    try:
        while not fatal and not _are_over(running):
            fatal = find_fatal()
    finally:
        # also for a second Ctrl-C, which is raised here: the pool waits for its streams, and nobody else stops them
        stopping.set()
    return fatal


def _are_over(running: Sequence[Future[CdcError | None]]) -> bool:
    """Have all ended until the next look, or one by a defect? Then all end: nobody would notice that it is missing."""
    ended, others = wait(running, LOOK_SECONDS, FIRST_EXCEPTION)
    return not others or any(stream.exception() for stream in ended)


def _check_source(
    pipeline: Pipeline, say: Say, stops: StopRequests, resyncs: ResyncQueue, reports: StopReports
) -> None:
    """Request the stops and copies that the source asks for now. A source that does not answer is only reported, since
    followers read the log."""
    lake = pipeline.lake_follower
    reports.note(lake.tables.stops())
    check_secret(pipeline)
    stops.request(find_changed_choices(pipeline))
    for problem in problems.describe_stops(pipeline):
        say(WarningLine.of(problem, problem))
    try:
        check_timeline(pipeline)
        stops.request({name: failure.what for name, failure in find_unlogged_changes(pipeline).items()})
        resyncs.request(find_new_tables(pipeline))
    except UnreachableError as error:
        say(WarningLine(f"following what the log has; {error.what}"))


def _say_text_columns(pipeline: Pipeline, say: Say) -> None:
    """Say what new views take for more than its text: of the others, the bootstrap has said it."""
    if new := find_unfilled_views(pipeline):
        for notice in describe_text_columns(pipeline, read_followed_tables(pipeline), new):
            say(str(notice))


def mark_source_end(pipeline: Pipeline) -> Lsn:
    """Write heartbeats behind everything committed now; a follower at or above the returned LSN has all of it."""
    with pipeline.open_source() as connection:
        # its commit flushes earlier asynchronous commits, so the LSN read next, the end as written, covers them
        heartbeat.write_heartbeat(connection, pipeline.settings.source, pipeline.name, "caught up?")
        now = source.current_lsn(connection)
        # commits above that LSN: on an idle source no position would ever pass it
        heartbeat.write_heartbeat(connection, pipeline.settings.source, pipeline.name, "caught up!")
    return now


def _check_lake(pipeline: Pipeline, names: Sequence[str], *, until_caught_up: bool) -> None:
    check_log(pipeline)
    if until_caught_up:
        _raise_first([_find_pause(pipeline, names)])
        _check_lake_followed(pipeline, names)


def _check_lake_followed(pipeline: Pipeline, names: Sequence[str]) -> None:
    """Raise PreconditionError when nobody follows the lake: the followers behind it would wait for ever."""
    lake = pipeline.lake_name
    if lake in names:
        return
    # a lease that can be taken is held by nobody
    with suppress(RefusedError), pipeline.leases.hold(lake):
        raise PreconditionError(
            f"{', '.join(names)} cannot catch up: nobody follows {lake}, which feeds them",
            f"run `cdc follow`, or add --follower {lake}",
        )
