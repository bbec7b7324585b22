"""The stream that keeps the lake in sync: ENDs come in, runs of whole transactions are applied."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from cdc.columns.netting import transactions as columns
from cdc.columns.netting.transactions import Ends, cut_runs, drop_applied
from cdc.core.errors import HistoryLostError, TopicLostError
from cdc.core.position import BEFORE_LOG, Bookmark, Lsn, Offsets, Position
from cdc.core.table import Table, TableName
from cdc.log.clients.reader import Reader
from cdc.log.names import change_topic, transaction_topic
from cdc.log.runs import ReadRun, RunReader
from cdc.log.settings import LogSettings
from cdc.log.spark_options import following
from cdc.log.transaction_reader import NewEnds
from cdc.log.transactions import check_position, ends_between
from cdc.run.capture.heartbeat_chain import HeartbeatChain
from cdc.run.copy.resync import ResyncQueue
from cdc.run.follow.large_runs import LargeRunReader, ReadLargeRun
from cdc.run.follow.schema_changes import SchemaChanges
from cdc.run.follow.stop_requests import StopRequests
from cdc.run.tables import problems as left_behind
from sinks.lake.follower import DeltaFollower
from sinks.lake.metadata.stopped_tables import StoppedTable
from sinks.lake.pace import Pace
from sinks.lake.settings import DeltaSettings

MESSAGES_A_CHANGE = 2
"""At most so many messages of the transaction topic for one change of a batch: a BEGIN and an END."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """What a stream has just done: where it stands, and how many changes that took."""

    position: Position
    changes: int


@dataclass(frozen=True, slots=True)
class Readers:
    """How runs are read, by the driver itself or by a Spark job; which are new; and whether the log is whole."""

    small: RunReader
    large: LargeRunReader
    ends: NewEnds
    chain: HeartbeatChain


@dataclass(frozen=True, slots=True)
class LakeStreamHooks:
    """Who hears what the stream does, and has tables stopped: `reached` answers whether to go on.

    `wait` lets seconds pass, or fewer where the stream is to end.
    """

    reached: Callable[[BatchProgress], bool]
    say: Callable[[str], None]
    stops: StopRequests
    renewal: ResyncQueue
    wait: Callable[[float], object] = time.sleep


class LakeStream:
    """Applies the transaction topic to the Delta follower; one call a micro-batch.

    The position in the lake decides what is new, never the checkpoint, which therefore lives only as long as a run.
    """

    def __init__(
        self,
        follower: DeltaFollower,
        readers: Readers,
        schema: SchemaChanges,
        log: LogSettings,
        settings: DeltaSettings,
        watched: LakeStreamHooks,
    ) -> None:
        self._follower = follower
        self._readers = readers
        self._schema = schema
        self._log = log
        self._settings = settings
        self._budget = settings.batch_changes
        self._few = settings.small_run_changes * MESSAGES_A_CHANGE
        self._most = self._budget * MESSAGES_A_CHANGE
        self._watched = watched
        self._pace = Pace(settings.pace_limits)
        self._topic = transaction_topic(log.prefix)
        # the query's thread owns `_known` and `_held`, whoever reads runs the rest; between the two lies `_runs_read`.
        # Who commits has only what it is given: its answer is heard by `_committed`
        self._position = self._start()
        # killed between two tables' commits, one is ahead of the cut: the first run has to reach as far for all
        self._ahead = follower.highest_offset()
        self._known = self._position.end_offset
        readers.ends.begin(self._position)
        self._held: list[Ends] = []
        self._beside = ThreadPoolExecutor(1, "runs")
        self._commits = ThreadPoolExecutor(1, "commits")
        self._reading: Future[None] | None = None
        self._committing: Future[bool] | None = None
        self._seen_enough = False
        watched.stops.serve(self.stop)
        self._tell(follower.check_tables())

    def source(self, spark: SparkSession) -> DataFrame:
        """The messages of the transaction topic behind the position: they are the clock, and are read by the driver."""
        options = following(self._log, self._topic, self._position.topic_offset + 1, self._most)
        return spark.readStream.format("kafka").options(**options).load()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self._watched.wait(self._pace.remaining())
        self._pace.begin()
        # as many offsets a call as a micro-batch has: there may be no other call for what this one leaves
        found = self._readers.ends.read(self._most)
        if len(found):
            self._held.append(found)
            self._known = int(found.offset[-1])
        # only now: the reading above went on beside these runs, and `_position` was theirs meanwhile
        self._runs_read()
        # up to where the furthest table is, ENDs are only gathered: the run that reaches it is cut from all of them
        if self._seen_enough or not self._held or self._known < self._ahead:
            self._committed()
            return
        ends, self._held = columns.concat_ends(self._held), []
        runs = [*cut_runs(drop_applied(ends, self._position), self._budget, self._ahead, self._schema.table)]
        # where ENDs are few, reading the next ones is no work that is worth doing meanwhile
        if len(ends) * MESSAGES_A_CHANGE > self._few and self._readers.ends.waiting() > self._few:
            # what is no whole run waits for the rest of it
            self._held = [runs.pop()] if len(runs) > 1 else []
            # there will be another call, which hears of a failure: it reads its ENDs while these runs are read
            self._reading = self._beside.submit(self._apply, runs)
        else:
            self._apply(runs)
            self._committed()

    def settle(self) -> None:
        """Wait for the runs that are still being applied; raises what ended them."""
        try:
            self._runs_read()
        finally:
            # also where the reading has failed: a commit that still goes on would run beside the next stream
            self._committed()

    def _runs_read(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.result()

    def _committed(self) -> None:
        committing, self._committing = self._committing, None
        if committing is not None and not committing.result():
            self._seen_enough = True

    def _apply(self, runs: Sequence[Ends]) -> None:
        """Each run is read while the one before it is committed: tasks have no use for the driver's core."""
        self._admit()
        for run in runs:
            start = self._gone_along(run, self._position.next_offsets)
            # before anything of the run is applied: a log that lacks commits is followed no further than it is whole
            beat, start = self._readers.chain.check(run, self._position, start)
            tables, changes, read = self._read_whole(run, start)
            self._committed()
            if self._seen_enough:
                return
            if isinstance(read, ReadLargeRun) and self._follower.count_blocked().keys() & set(read.batch.large.tables):
                # the run before has left keys held, which was not known when this one was read; what tasks have written
                # for it then is in no table, and swept
                read = self._read(run, tables, changes, start)
            position = replace(run.position(self._position, read.next_offsets), beat=beat)
            self._committing = self._commits.submit(self._commit, read, BatchProgress(position, changes))
            # the run reaches whatever was ahead: no table is further than the position any more
            self._position, self._ahead = position, BEFORE_LOG

    def _commit(self, read: ReadRun | ReadLargeRun, progress: BatchProgress) -> bool:
        self._follower.apply(read.batch, progress.position)
        self._pace.note_commit(self._follower.cost(), len(read.batch.ends))
        left = self._follower.take_report()
        for line in left.notes:
            self._watched.say(line)
        for name, (keys, letters) in left.blocked.items():
            self._watched.say(str(left_behind.describe_held_keys(name, keys, letters)))
        self._tell(left.stopped)
        return self._watched.reached(progress)

    def _gone_along(self, run: Ends, start: Offsets) -> Offsets:
        """Take in the schema changes of a run before its changes of rows, which may have come behind them."""
        if not len(run.touching(self._schema.table)):
            return start
        # they hold from here on: what lies before is applied with the tables as they were
        self._committed()
        stops, start = self._schema.take_in(run, start)
        self._tell(stops)
        return start

    def stop(self, reasons: Mapping[TableName, str]) -> None:
        """Stop tables of which somebody has found out that the source has them otherwise now; from any thread."""
        self._tell(self._schema.stop(reasons))

    def _tell(self, stops: Sequence[StoppedTable]) -> None:
        for stop in stops:
            self._watched.say(f"{stop}; the others go on → {stop.remedy}")
        self._watched.renewal.want(stop.name for stop in stops if stop.copy)

    def _read_whole(self, run: Ends, start: Offsets) -> tuple[Sequence[Table], int, ReadRun | ReadLargeRun]:
        """Read a run; tables whose topics have lost what it counts are stopped, and the others read without them."""
        while True:
            # not those that have come since `_admit`: their topics would be read on behind changes that nobody applies
            tables = self._follower.tables_in_cuts()
            changes = sum(run.counts(str(table.name) for table in tables).values())
            try:
                return tables, changes, self._read(run, tables, changes, start)
            except TopicLostError as lost:
                start = self._without(lost, tables, start)

    def _without(self, lost: TopicLostError, tables: Sequence[Table], start: Offsets) -> Offsets:
        """Stop the table whose topic this is, to be copied again; gives the offsets without the topic's."""
        self._readers.small.forget(lost.topic)
        names = [table.name for table in tables if change_topic(self._log.prefix, table.name) == lost.topic]
        if not names:
            raise lost
        # what lies before is applied with the table as it was
        self._committed()
        self._tell(self._follower.stop(dict.fromkeys(names, lost.what), copy=names))
        self._position = replace(self._position, next_offsets=_without_topic(self._position.next_offsets, lost.topic))
        return _without_topic(start, lost.topic)

    def _read(self, run: Ends, tables: Sequence[Table], changes: int, start: Offsets) -> ReadRun | ReadLargeRun:
        if changes <= self._settings.small_run_changes:
            return self._readers.small.read(run, tables, start, self._follower.last_applied(run))
        topics = {table.name: change_topic(self._log.prefix, table.name) for table in tables}
        return self._readers.large.read(run, self._follower.find_missing(run, topics), start)

    def _admit(self) -> None:
        """Tables that a bootstrap beside us has copied: what the position has passed since their copy comes first.

        Only then do they take part: a cut that named one before would show it without these changes.
        """
        renewed = self._watched.renewal.copied()
        if renewed:
            # nobody has told the follower, which looks at tables that are not stopped only
            self._committed()
            self._follower.reload_tables(renewed)
        if self._follower.joining():
            # to the position, which has to be in a cut for that
            self._committed()
            joining = self._follower.joining()
            late = {name: mark for name, mark in joining.items() if not mark.covers(self._position.lsn)}
            if late:
                self._catch_up(late)
            self._follower.adopt(joining)
        if renewed:
            marks = self._follower.bookmarks()
            reached = [marks[name].lsn for name in renewed if name in marks]
            self._watched.renewal.taken_in(renewed, Lsn(max([*reached, self._position.lsn + 1])))

    def _catch_up(self, late: dict[TableName, Bookmark]) -> None:
        since = min(mark.lsn for mark in late.values())
        with Reader(self._log) as reader:
            # without those that were delivered twice: they would count for two
            ends = drop_applied(ends_between(reader, self._topic, since, self._position), None)
        # one that stopped was read no further since, and its copy is younger; where there is no offset, nobody has read
        # its topic yet
        topics = {change_topic(self._log.prefix, name) for name in late}
        offsets: Offsets = {t: at for t, at in self._position.next_offsets.items() if t in topics}
        for stretch, names in _split_at_bookmarks(ends, late):
            for run in cut_runs(stretch, self._budget, alone=self._schema.table):
                offsets = self._gone_along(run, offsets)
                tables = [table for table in self._follower.tables() if table.name in names]
                read = self._readers.small.read(run, tables, offsets)
                offsets = read.next_offsets
                self._follower.catch_up(read.batch)
        reached = {topic: at for topic, at in offsets.items() if topic in topics}
        self._position = replace(self._position, next_offsets={**self._position.next_offsets, **reached})

    def _start(self) -> Position:
        position = self._follower.position()
        if position is None:
            raise HistoryLostError("the lake has no copy to go on from", "run `cdc bootstrap` first")
        self._follower.check_capture()
        with Reader(self._log) as reader:
            check_position(reader, self._topic, position)
        return position


def _without_topic(offsets: Offsets, topic: str) -> Offsets:
    return {name: at for name, at in offsets.items() if name != topic}


def _split_at_bookmarks(ends: Ends, late: Mapping[TableName, Bookmark]) -> Iterator[tuple[Ends, set[TableName]]]:
    """The ENDs from bookmark to bookmark, each with the tables whose copies lie before it.

    What lies before a table's own copy is not counted: its topic may have been read beyond that.
    """
    marks = sorted({mark.lsn for mark in late.values()})
    for start, stop in zip(marks, [*marks[1:], None], strict=True):
        inside = ends.lsn > start if stop is None else (ends.lsn > start) & (ends.lsn <= stop)
        yield ends.where(inside), {name for name, mark in late.items() if mark.lsn <= start}
