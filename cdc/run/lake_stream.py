"""The stream that keeps the lake in sync: ENDs come in, runs of whole transactions are applied."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns import ends as columns
from cdc.columns.ends import Ends, cut_runs, unapplied
from cdc.columns.names import Message
from cdc.core.errors import HistoryLostError
from cdc.core.position import BEFORE_LOG, Bookmark, Offsets, Position
from cdc.core.table import Table, TableName
from cdc.log.clients.reader import Reader
from cdc.log.names import change_topic, transaction_topic
from cdc.log.new_ends import NewEnds
from cdc.log.runs import ReadRun, RunReader
from cdc.log.settings import LogSettings
from cdc.log.spark_options import following
from cdc.log.transactions import check_position, ends_between, ends_of
from cdc.run.large_runs import LargeRunReader, ReadLargeRun
from sinks.lake.follower import DeltaFollower
from sinks.lake.settings import DeltaSettings

BEGIN = '{"status":"BEGIN"'
"""What every second message of the transaction topic begins with: it need not leave the JVM."""
MESSAGES_A_CHANGE = 2
"""At most so many messages of the transaction topic for one change of a batch: a BEGIN and an END."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a stream has just done: where it stands, and how many changes that took."""

    position: Position
    changes: int


@dataclass(frozen=True, slots=True)
class Readers:
    """How runs are read: by the driver itself, or by a Spark job; and what is new, where it is little."""

    small: RunReader
    large: LargeRunReader
    ends: NewEnds


class LakeStream:
    """Applies the transaction topic to the Delta follower; one call a micro-batch.

    The position in the lake decides what is new, never the checkpoint, which therefore lives only as long as a run.
    """

    def __init__(
        self,
        follower: DeltaFollower,
        readers: Readers,
        log: LogSettings,
        settings: DeltaSettings,
        reached: Callable[[Progress], bool],
    ) -> None:
        self._follower = follower
        self._readers = readers
        self._log = log
        self._settings = settings
        self._budget = settings.batch_changes
        self._few = settings.small_run_changes * MESSAGES_A_CHANGE
        self._reached = reached
        self._topic = transaction_topic(log.prefix)
        self._position = self._start()
        self._ahead = follower.furthest()
        self._known = self._position.end_offset
        self._held: list[Ends] = []
        self._beside = ThreadPoolExecutor(1, "runs")
        self._applying: Future[None] | None = None
        self._seen_enough = False

    def source(self, spark: SparkSession) -> DataFrame:
        """The messages of the transaction topic behind the position, as a streaming frame without BEGINs."""
        most = self._budget * MESSAGES_A_CHANGE
        options = following(self._log, self._topic, self._position.end_offset + 1, most)
        messages = spark.readStream.format("kafka").options(**options).load().select(Message.OFFSET, Message.VALUE)
        text = F.col(Message.VALUE).cast("string")
        return messages.where(text.isNull() | ~text.startswith(BEGIN))

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        found = self._new(frame)
        if len(found):
            self._held.append(found)
            self._known = int(found.offset[-1])
        self.settle()
        if self._seen_enough or not self._held or self._known < self._ahead:
            return
        ends, self._held = columns.joined(self._held), []
        # where ENDs are few, reading the next ones is no work that is worth doing meanwhile
        if len(ends) * MESSAGES_A_CHANGE > self._few and self._readers.ends.waiting(self._known + 1) > self._few:
            # there will be another call, which hears of a failure: it reads its ENDs while these runs are applied
            self._applying = self._beside.submit(self._apply_all, ends)
        else:
            self._apply_all(ends)

    def settle(self) -> None:
        """Wait for the runs that are still being applied; raises what ended them."""
        applying, self._applying = self._applying, None
        if applying is not None:
            applying.result()

    def _apply_all(self, ends: Ends) -> None:
        self._admit()
        for run in cut_runs(unapplied(ends, self._position), self._budget, self._ahead):
            if not self._apply(run):
                self._seen_enough = True
                return

    def _new(self, frame: DataFrame) -> Ends:
        """The ENDs behind those that are known.

        A few are not worth a Spark job (0.6 s; the driver needs hundredths): then the query is the clock, no more. The
        driver reads further than the micro-batch, and so later ones may bring nothing new.
        """
        if self._readers.ends.waiting(self._known + 1) <= self._few:
            return self._readers.ends.read()
        rows = frame.where(F.col(Message.OFFSET) > self._known).toArrow()
        # one partition, read in order: sorting would cost a second Spark job
        return ends_of(self._topic, rows[Message.OFFSET].to_pylist(), rows[Message.VALUE].to_pylist())

    def _apply(self, run: Ends) -> bool:
        tables = self._follower.tables()
        changes = sum(run.counts(str(table.name) for table in tables).values())
        read = self._read(run, tables, changes)
        position = run.position(self._position.generation, read.next_offsets)
        self._follower.apply(read.batch, position)
        self._position, self._ahead = position, BEFORE_LOG
        return self._reached(Progress(position, changes))

    def _read(self, run: Ends, tables: Sequence[Table], changes: int) -> ReadRun | ReadLargeRun:
        start = self._position.next_offsets
        if changes <= self._settings.small_run_changes:
            return self._readers.small.read(run, tables, start)
        topics = {table.name: change_topic(self._log.prefix, table.name) for table in tables}
        return self._readers.large.read(run, self._follower.wanted(run, topics), start)

    def _admit(self) -> None:
        """Tables that were copied meanwhile: what the position has passed since their copy comes first."""
        joining = self._follower.joining()
        if joining:
            self._catch_up(joining)
            self._follower.adopt(joining)

    def _catch_up(self, late: dict[TableName, Bookmark]) -> None:
        since = min(mark.lsn for mark in late.values())
        with Reader(self._log) as reader:
            ends = ends_between(reader, self._topic, since, self._position)
        tables = [table for table in self._follower.tables() if table.name in late]
        offsets: Offsets = {}
        for run in cut_runs(ends, self._budget):
            read = self._readers.small.read(run, tables, offsets)
            offsets = read.next_offsets
            self._follower.catch_up(read.batch)

    def _start(self) -> Position:
        position = self._follower.position()
        if position is None:
            raise HistoryLostError("the lake has no copy to go on from", "run `cdc bootstrap` first")
        with Reader(self._log) as reader:
            check_position(reader, self._topic, position)
        return position
