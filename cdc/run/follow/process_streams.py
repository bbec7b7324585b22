"""The streams of one process: builds each from the pipeline, keeps it going, and reports its problems and progress."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial

from cdc.config.settings import VIEWS
from cdc.connect.capture.debezium_properties import placeholder
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.core.errors import CdcError, RefusedError
from cdc.core.fail_points import reach
from cdc.core.position import Lsn, Position, format_lsn
from cdc.core.table import TableName
from cdc.core.text.lines import ErrorLine, WarningLine
from cdc.core.text.plural import format_count
from cdc.log.clients.standing_consumer import StandingConsumer
from cdc.log.end_reader import EndReader
from cdc.log.names import change_topic
from cdc.log.run_reader import RunReader
from cdc.progress import LineProgress
from cdc.run.copy.fill import TableFiller
from cdc.run.copy.resync import resync_tables
from cdc.run.copy.resync_queue import ResyncQueue, ResyncResult
from cdc.run.follow.feed_stream import FeedStream, FeedStreamHooks, choose_poll_seconds
from cdc.run.follow.lake.lake_stream import LakeStream
from cdc.run.follow.lake.lake_stream_parts import LakeStreamConfig, LakeStreamHooks, Readers
from cdc.run.follow.lake.large_runs import LargeRunReader
from cdc.run.follow.lake.schema_changes import SchemaChanges
from cdc.run.follow.maintenance import run_maintenance
from cdc.run.follow.stop_reports import StopReports
from cdc.run.follow.stop_requests import StopRequests
from cdc.run.follow.stream_meter import StreamMeter, report_streams
from cdc.run.follow.streams import BatchProgress, ProblemReporter, SparkStream, Stream, StreamRunner
from cdc.run.follow.view_stream import ViewStream, maintain_views
from cdc.run.health.confirmed import ConfirmedLsns
from cdc.run.health.heartbeat_chain import HeartbeatChain, find_verifiable_lsn
from cdc.run.lease import HANDED_OVER, Lease, name_rebuild
from cdc.run.pipeline import Pipeline
from cdc.run.repair_requests import TableRequests
from cdc.run.scratch import open_scratch
from cdc.run.shutdown import POLL_SECONDS, StreamEnd
from cdc.run.spark.errors import SparkEndedError, to_cdc_error
from cdc.run.status.stream_report import open_reports
from cdc.run.tables.resume_check import require_position
from cdc.run.views.kept_views import open_keeper
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.follower import DeltaFollower
from cdc.views.upkeep.keeper import ViewKeeper

Say = Callable[[str], None]
ENDING = (RefusedError, SparkEndedError)
"""Failures that end the whole process: another process has taken over a follower, or this one has lost its Spark."""


@dataclass(frozen=True, slots=True)
class FollowContext:
    """State shared by the streams of one process.

    `target`: the LSN at which each stream ends; None to follow until stopped. `leases`: by follower; a stream's
    problem is noted in its lease, where `cdc status` reads it.
    """

    target: Lsn | None
    say: Say
    stops: StopRequests
    resyncs: ResyncQueue
    reports: StopReports
    leases: Mapping[str, Lease]


def have_settled(keeper: ViewKeeper | None) -> bool:
    """Whether all views show the newest cut: one that shows an older one is computed at the next. False without a
    keeper, since nothing is known of views that another process keeps."""
    return keeper is not None and not keeper.has_delayed


class ProcessStreams:
    """Builds and runs one stream per follower; `run` is called in a thread of its own for each."""

    def __init__(
        self,
        pipeline: Pipeline,
        names: Sequence[str],
        stopping: threading.Event,
        context: FollowContext,
    ) -> None:
        self._pipeline = pipeline
        self._lake = pipeline.lake_name
        self._poll_seconds = choose_poll_seconds(rings=self._lake in names, on_store=pipeline.lake.access is not None)
        self._stopping = stopping
        self._context, self._say = context, context.say
        self._fed = pipeline.fed
        self._meters = {name: StreamMeter() for name in names}
        # without a stream behind the lake in this process, recent changes would be kept for nobody
        self._recent = ChangeCache() if set(names) - {self._lake} else ChangeCache(0)
        self._keeper: ViewKeeper | None = None
        # of the maintenance's thread, which looks every minute: opened anew, their cuts are read from the first one on
        self._views = pipeline.reopened().views

    def take_over(self, names: Sequence[str]) -> None:
        """Take these followers over, and say so: of two processes, the one that says it later goes on."""
        for name in names:
            # of one that fails, the stream tries it again, and says what is wrong
            with suppress(CdcError):
                if name in self._fed:
                    self._fed[name].take_over()
        self._say(f"following: {', '.join(names)}")

    def report(self) -> AbstractContextManager[None]:
        """Tell of the streams in reports, as long as the context lasts."""
        return report_streams(self._meters, open_reports(self._pipeline), self._pipeline.settings.digest)

    def resync(self, names: Collection[TableName]) -> ResyncResult:
        """Copy tables beside the streams."""
        # in a thread of its own, and by what the lake has now
        with self._pipeline.reopened() as own:
            return resync_tables(own, self._say, LineProgress(self._say, every=30.0), names)

    def run(self, name: str) -> CdcError | None:
        """Run one follower's stream until it ends; returns its failure. One that ends the process sets `stopping`."""
        requests = self._pipeline.requests
        done, reporter = StreamEnd(self._stopping, partial(requests.ends_stream, name)), self._reporter(name)
        # a start is what an older request asks for; one that stays is taken with the others
        with suppress(OSError):
            requests.take_restart(name)
        # what has ended the stream before, if anything has, is over as far as is known
        self._context.leases[name].write_note(None)
        is_lake = name == self._lake
        # The lake does not wait for a repair, since all others depend on it; nor does a stream with a target, which
        # somebody is waiting for.
        waits = None if is_lake or self._context.target is not None else reporter
        with ExitStack() as held:
            start = self._starter(name, done, reporter, held)
            heed = partial(self._heed_requests, name, done, held, ProblemReporter())
            runner = StreamRunner(name, start, done, self._say, waits, self._meters[name].note_retry)
            failure: CdcError | None = None
            while failure is None and not done.is_for_good:
                failure = heed() or runner.run()
        if failure:
            reporter.report(failure)
        else:
            # told to end while it waited for a repair, say: what is left noted is why a stream has ended for good
            self._context.leases[name].write_note(None)
        if failure and not isinstance(failure, ENDING):
            self._say(ErrorLine.of(f"{name} stopped: {failure}", failure))
        # without the lake nobody behind it gets new cuts: the process ends, so that a supervisor notices
        if failure and (is_lake or isinstance(failure, ENDING)):
            self._stopping.set()
        return failure

    def _hand_over(self, name: str, done: StreamEnd, held: ExitStack) -> None:
        """Rest with nothing open as long as another process has the follower, if one has asked for it."""
        requests, lease = self._pipeline.requests, self._context.leases[name]
        if not requests.wants_handover(name):
            return
        # of the others, the start closes what is held, and opens it anew
        if name in self._fed:
            self._fed[name].close()
        else:
            held.close()
        lease.write_note(HANDED_OVER)
        self._say(f"{name}: rests while `cdc rebuild` swaps it")
        while requests.wants_handover(name) and not done.is_for_good:
            if not self._pipeline.leases.is_held(name_rebuild(name)):
                # whoever has asked was killed
                requests.take_back(name)
            self._stopping.wait(POLL_SECONDS)
        lease.write_note(None)

    def _heed_requests(self, name: str, done: StreamEnd, held: ExitStack, reporter: ProblemReporter) -> CdcError | None:
        """Do what is asked of the stream; returns the pause if somebody waits for the stream's target."""
        try:
            self._hand_over(name, done, held)
            pause = self._keep_request(name, done, held)
        except Exception as error:  # noqa: BLE001 - the stream would end in silence, while the others go on
            failure = error if isinstance(error, CdcError) else to_cdc_error(f"what is asked of {name}", error)
            if reporter.report(failure):
                self._say(WarningLine.of(f"{name}: {failure}; trying again until it works", failure))
            self._stopping.wait(POLL_SECONDS)
            return None
        reporter.clear()
        return pause

    def _keep_request(self, name: str, done: StreamEnd, held: ExitStack) -> CdcError | None:
        """Wait as long as the follower is paused; returns the pause if somebody waits for the stream's target."""
        requests, lease = self._pipeline.requests, self._context.leases[name]
        if requests.wants_restart(name):
            requests.take_restart(name)
            reach("request.taken")
            self._say(f"{name}: starts again")
        pause = requests.read_pause(name)
        if pause is None or self._context.target is not None:
            return pause
        lease.write_note(pause)
        self._say(WarningLine.of(pause, pause))
        while requests.is_paused(name) and not done.is_for_good:
            if requests.wants_handover(name):
                self._hand_over(name, done, held)
                lease.write_note(pause)
            self._stopping.wait(POLL_SECONDS)
        if not done.is_for_good:
            lease.write_note(None)
            self._say(f"{name}: is resumed")
        return None

    def _reporter(self, name: str) -> ProblemReporter:
        def tell(failure: CdcError | None) -> None:
            self._context.leases[name].write_note(failure)
            if failure is None:
                self._say(f"{name}: goes on")

        return ProblemReporter(tell)

    def _starter(self, name: str, done: StreamEnd, reporter: ProblemReporter, held: ExitStack) -> Callable[[], Stream]:
        if name == self._lake:
            return partial(self._lake_stream, done, held)
        hooks = FeedStreamHooks(partial(self._report_progress, name, done), reporter.clear)
        return self._view_starter(hooks, held) if name == VIEWS else self._fed_starter(name, hooks, held)

    def _view_starter(self, hooks: FeedStreamHooks, held: ExitStack) -> Callable[[], Stream]:
        def start() -> Stream:
            # closes the maintenance of the last try before its tables are opened anew
            held.close()
            own, is_patient = self._pipeline.reopened(), self._context.target is None
            self._keeper = None
            keeper = self._keeper = open_keeper(own, self._recent, self._say, is_patient=is_patient)
            held.enter_context(maintain_views(own, keeper, partial(self._read_positions, of_views=True), self._say))
            return ViewStream(keeper, own.table_cuts, self._recent, hooks, self._poll_seconds)

        return start

    def _fed_starter(self, name: str, hooks: FeedStreamHooks, held: ExitStack) -> Callable[[], Stream]:
        follower, feed = self._fed[name], self._pipeline.open_feed(name, self._recent)
        held.callback(follower.close)
        # one filler for all tries: it remembers which copies have just failed
        filler = TableFiller(name, follower, feed, self._say)

        def start() -> Stream:
            follower.take_over()
            return FeedStream(follower, feed, filler, self._recent, hooks, self._poll_seconds)

        return start

    def _lake_stream(self, done: StreamEnd, held: ExitStack) -> SparkStream:
        pipeline, s = self._pipeline, self._pipeline.settings
        # closes the last try's parts in this order: maintenance, the follower whose tables it works on, the consumers
        held.close()
        unsent = placeholder(pipeline.name)
        small = RunReader(held.enter_context(closing(StandingConsumer(s.log))), s.log.prefix, unsent)
        large = LargeRunReader(pipeline.spark, s.log, unsent, small)
        # ENDs and runs are read at the same time: each needs its own consumer
        ends = EndReader(held.enter_context(closing(StandingConsumer(s.log, tombstones=True))), s.log.prefix)
        follower = pipeline.open_lake_follower(self._recent)
        held.callback(follower.close)
        readers = Readers(small, large, ends, self._chain(follower, small))
        # no source table: this adds columns that a newer version of the toolkit has in the lake's own tables
        follower.prepare([])
        held.enter_context(run_maintenance(follower.maintenance, self._read_positions, self._say))
        schema = SchemaChanges(follower, small, s.source)
        reached = partial(self._report_progress, self._lake, done)
        context = self._context
        stops, resyncs, reports = context.stops, context.resyncs, context.reports
        repairs = TableRequests(pipeline.repair_requests)
        hooks = LakeStreamHooks(reached, self._say, stops, resyncs, reports, repairs, done.wait, self._may_rest)
        stream = LakeStream(follower, readers, schema, LakeStreamConfig(s.log, s.delta[1]), hooks)
        scratch = open_scratch(pipeline.state)
        return SparkStream(pipeline.spark, self._lake, s.follow.trigger_seconds, stream, scratch)

    def _may_rest(self) -> bool:
        """Whether nobody needs a cut for heartbeats alone: neither who waits for a target, nor a view."""
        return self._context.target is None and (not self._pipeline.settings.views or have_settled(self._keeper))

    def _chain(self, follower: DeltaFollower, reader: RunReader) -> HeartbeatChain:
        s, position = self._pipeline.settings, require_position(follower)
        with self._pipeline.open_log() as log:
            since = find_verifiable_lsn(log, s.log.prefix, s.source, position)
        beats = change_topic(s.log.prefix, heartbeat_table(s.source).name)
        confirmed = ConfirmedLsns(s.log, position.log_start, beats)
        return HeartbeatChain(reader, s.source, self._pipeline.name, since, confirmed.include)

    def _read_positions(self, *, of_views: bool = False) -> list[Position] | None:
        """The positions of the followers behind the lake, the views among them, and of views that are computed; None
        while one does not answer, since it may need any cut. `of_views`: only of followers that hold views.

        Called in the thread of the maintenance, so with clients of its own.
        """
        s = self._pipeline.settings
        try:
            with self._pipeline.reopened() as own:
                positions = [f.position() for name, f in own.fed.items() if not of_views or s.holds_views(name)]
                if s.views and not of_views:
                    positions.append(self._views.position())
        except CdcError:
            return None
        computed = self._keeper.list_read_positions() if self._keeper else []
        return [*(position for position in positions if position is not None), *computed]

    def _report_progress(self, name: str, done: StreamEnd, progress: BatchProgress) -> bool:
        """Print and measure the progress of a batch; returns whether its stream is to go on."""
        self._meters[name].note_batch(progress)
        if progress.changes:
            self._say(f"{name}: {format_count(progress.changes, 'change')}, at {format_lsn(progress.position.lsn)}")
        target, resyncs = self._context.target, self._context.resyncs
        # a table that is being copied again has not caught up: its copy has to join first, and be reached
        if target is not None and not resyncs.is_pending and progress.position.lsn >= max(target, resyncs.joined_lsn):
            self._say(f"{name}: caught up, at {format_lsn(progress.position.lsn)}")
            done.set()
        return not done.is_set()
