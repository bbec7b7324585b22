"""`cdc follow`: one stream per follower, in one Spark application, until it is told to stop."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain

from pyspark.sql import SparkSession

from cdc.config.settings import VIEWS, PipelineSettings
from cdc.connect.source import connection as source
from cdc.connect.source import heartbeat
from cdc.core.errors import CdcError, IncompleteError, PreconditionError, RefusedError, UnreachableError
from cdc.core.position import Lsn
from cdc.run.copy.resync_queue import ResyncQueue, run_resyncs
from cdc.run.follow.capture_monitor import CaptureMonitor
from cdc.run.follow.process_streams import ENDING, FollowContext, ProcessStreams, Say
from cdc.run.follow.stop_reports import StopReports
from cdc.run.follow.stop_requests import StopRequests
from cdc.run.kept_histories import describe_stopped_histories
from cdc.run.kept_views import describe_stopped_views, find_unfilled_views
from cdc.run.lease import Lease, hold_lease
from cdc.run.pipeline import delta_follower, fed_followers
from cdc.run.shutdown import stop_on_signals
from cdc.run.spark.arenas import limit_arenas
from cdc.run.spark.errors import check_spark
from cdc.run.spark.gc_tuning import relax_gc
from cdc.run.tables import problems
from cdc.run.tables.column_notices import describe_text_columns
from cdc.run.tables.history_check import check_history, check_log
from cdc.run.tables.schema_check import find_changed_choices, find_unlogged_changes, read_followed_tables
from cdc.run.tables.selection import find_new_tables

LOOK_SECONDS = 10.0
"""Pause between two checks of the capture, the leases and Spark's Java."""


def follow(
    settings: PipelineSettings,
    start_spark: Callable[[], SparkSession],
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
    process ends when another one takes over a follower.

    Raises the first failure once all streams have ended. With `until_caught_up`, raises IncompleteError when
    everything has caught up except stopped tables or held keys.
    """
    # this process reads many messages for long
    relax_gc()
    limit_arenas()
    stopping = stopping or threading.Event()
    with ExitStack() as held:
        # before all checks: no other writer may change the facts behind them
        leases = {name: held.enter_context(hold_lease(settings, name)) for name in names}
        check_log(settings)
        if until_caught_up:
            _check_lake_followed(settings, names)
        stops, resyncs = StopRequests(), ResyncQueue(is_here=settings.delta[0] in names)
        reports = StopReports(say, resyncs)
        _check_source(settings, say, stops, resyncs, reports)
        _say_text_columns(settings, say)
        # after the checks, so that a refused start writes nothing into the source
        target = mark_source_end(settings) if until_caught_up else None
        monitor = CaptureMonitor(settings, target, say, stops, resyncs)
        context = FollowContext(target, say, stops, resyncs, reports, leases)
        streams = ProcessStreams(settings, names, start_spark(), stopping, context)
        if settings.delta[0] in names:
            held.enter_context(run_resyncs(resyncs, streams.resync, say))
        held.enter_context(stop_on_signals(stopping, say))
        say(f"following: {', '.join(names)}")
        failures = _run_streams(streams, names, partial(_find_fatal, monitor, leases.values()), stopping)
    _raise_first(failures)
    if until_caught_up:
        _raise_first([_find_incomplete(settings, names)])


def _run_streams(
    streams: ProcessStreams, names: Sequence[str], find_fatal: Callable[[], CdcError | None], stopping: threading.Event
) -> list[CdcError | None]:
    """Run the streams to their ends; returns the reason to end the process, if any, and each stream's failure."""
    # leaving the pool waits for every stream: each ends after its current batch
    with ThreadPoolExecutor(len(names)) as threads:
        running = [threads.submit(streams.run, name) for name in names]
        fatal = _wait_for_streams(running, find_fatal, stopping)
        return [fatal, *(stream.result() for stream in running)]


def _raise_first(failures: Sequence[CdcError | None]) -> None:
    """Raise the first of these failures; one that ended the process comes before those that it caused in streams."""
    for failure in sorted(filter(None, failures), key=lambda failure: not isinstance(failure, ENDING)):
        raise failure


def _find_incomplete(settings: PipelineSettings, names: Sequence[str]) -> CdcError | None:
    """The tables and keys that have not caught up, and will not without help."""
    lake, fed = delta_follower(settings), fed_followers(None, settings)
    held = [
        problems.describe_blocked_keys(name, *counts) for name, counts in sorted(lake.letters.count_blocked().items())
    ]
    behind = [problems.describe_stops_in(settings, name, fed[name]) for name in names if name in fed]
    views = describe_stopped_views(settings) if VIEWS in names else []
    stops = [*problems.describe_stops(settings, lake), *describe_stopped_histories(settings, lake)]
    incomplete = [*stops, *views, *chain.from_iterable(behind), *held]
    return IncompleteError(incomplete) if incomplete else None


def _find_fatal(monitor: CaptureMonitor, leases: Iterable[Lease]) -> CdcError | None:
    """Find a reason to end the process: a lost lease, an ended Java, or a capture that will not go on."""
    lost = next(filter(None, (lease.describe_loss() for lease in leases)), None)
    return lost or check_spark() or monitor.find_fatal()


def _wait_for_streams(
    running: Sequence[Future[CdcError | None]], find_fatal: Callable[[], CdcError | None], stopping: threading.Event
) -> CdcError | None:
    """Wait for the streams to end; stop them, and return the reason, as soon as `find_fatal` has one."""
    fatal = None
    try:
        while not fatal and wait(running, LOOK_SECONDS).not_done:
            fatal = find_fatal()
    finally:
        # also for a second Ctrl-C, which is raised here: the pool waits for its streams, and nobody else stops them
        stopping.set()
    return fatal


def _check_source(
    settings: PipelineSettings, say: Say, stops: StopRequests, resyncs: ResyncQueue, reports: StopReports
) -> None:
    """Request the stops and copies that the source asks for now. A source that does not answer is only reported, since
    followers read the log."""
    lake = delta_follower(settings)
    reports.note(lake.tables.stops())
    stops.request(find_changed_choices(settings))
    for problem in problems.describe_stops(settings, lake):
        say(str(problem))
    try:
        check_history(settings)
        stops.request({name: failure.what for name, failure in find_unlogged_changes(settings).items()})
        resyncs.request(find_new_tables(settings, lake))
    except UnreachableError as error:
        say(f"following what the log has; {error.what}")


def _say_text_columns(settings: PipelineSettings, say: Say) -> None:
    """Say what new views take for more than its text: of the others, the bootstrap has said it."""
    if new := find_unfilled_views(settings):
        for notice in describe_text_columns(settings, read_followed_tables(settings), new):
            say(str(notice))


def mark_source_end(settings: PipelineSettings) -> Lsn:
    """Write heartbeats behind everything committed now; a follower at or above the returned LSN has all of it."""
    with source.open_connection(settings.source) as connection:
        # its commit flushes earlier asynchronous commits, so the LSN read next, the end as written, covers them
        heartbeat.write_heartbeat(connection, settings.source, settings.pipeline.name, "caught up?")
        now = source.current_lsn(connection)
        # commits above that LSN: on an idle source no position would ever pass it
        heartbeat.write_heartbeat(connection, settings.source, settings.pipeline.name, "caught up!")
    return now


def _check_lake_followed(settings: PipelineSettings, names: Sequence[str]) -> None:
    """Raise PreconditionError when nobody follows the lake: the followers behind it would wait for ever."""
    lake = settings.delta[0]
    if lake in names:
        return
    # a lease that can be taken is held by nobody
    with suppress(RefusedError), hold_lease(settings, lake):
        raise PreconditionError(
            f"{', '.join(names)} cannot catch up: nobody follows {lake}, which feeds them",
            f"run `cdc follow`, or add --follower {lake}",
        )
