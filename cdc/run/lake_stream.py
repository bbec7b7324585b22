"""The stream that keeps the lake in sync: ENDs come in, runs of whole transactions are applied."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.batch import ChangeBatch
from cdc.columns.names import Message
from cdc.core.errors import HistoryLostError
from cdc.core.position import BEFORE_LOG, Bookmark, Position
from cdc.core.table import Table, TableName
from cdc.core.transaction import Run, TransactionEnd, cut_runs, unapplied
from cdc.log.changes import ChangeReader
from cdc.log.kafka_client import Reader
from cdc.log.names import transaction_topic
from cdc.log.settings import LogSettings
from cdc.log.spark_options import following
from cdc.log.transactions import check_position, ends_between, ends_of
from sinks.lake.follower import DeltaFollower

ENDS_A_TRIGGER = 20_000


@dataclass(frozen=True, slots=True)
class Progress:
    """What a stream has just done: where it stands, and how many changes that took."""

    position: Position
    changes: int


class LakeStream:
    """Applies the transaction topic to the Delta follower; one call a micro-batch.

    The position in the lake decides what is new, never the checkpoint, which therefore lives only as long as a run.
    """

    def __init__(
        self,
        follower: DeltaFollower,
        reader: ChangeReader,
        log: LogSettings,
        budget: int,
        reached: Callable[[Progress], bool],
    ) -> None:
        self._follower = follower
        self._reader = reader
        self._log = log
        self._budget = budget
        self._reached = reached
        self._topic = transaction_topic(log.prefix)
        self._position = self._start()
        self._ahead = follower.furthest()
        self._held: list[TransactionEnd] = []

    def source(self, spark: SparkSession) -> DataFrame:
        """The messages of the transaction topic behind the position, as a streaming frame."""
        options = following(self._log, self._topic, self._position.end_offset + 1, ENDS_A_TRIGGER)
        return spark.readStream.format("kafka").options(**options).load().select(Message.OFFSET, Message.VALUE)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        rows = frame.orderBy(F.col(Message.OFFSET)).collect()
        self._held += ends_of(self._topic, ((row[Message.OFFSET], _bytes(row[Message.VALUE])) for row in rows))
        if not self._held or self._held[-1].offset < self._ahead:
            return
        ends, self._held = self._held, []
        self._admit()
        for run in cut_runs(unapplied(ends, self._position), self._budget, self._ahead):
            if not self._apply(run):
                return

    def _apply(self, run: Run) -> bool:
        tables = self._follower.tables()
        read = self._reader.read(run, tables, self._position.next_offsets)
        try:
            position = run.position(self._position.generation, read.next_offsets)
            self._follower.apply(read.batch, position)
        finally:
            read.release()
        self._position, self._ahead = position, BEFORE_LOG
        return self._reached(Progress(position, run.changes(str(table.name) for table in tables)))

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
        for run in cut_runs(ends, self._budget):
            self._read_and(self._follower.catch_up, run, tables)

    def _read_and(self, apply: Callable[[ChangeBatch], None], run: Run, tables: list[Table]) -> None:
        read = self._reader.read(run, tables, {})
        try:
            apply(read.batch)
        finally:
            read.release()

    def _start(self) -> Position:
        position = self._follower.position()
        if position is None:
            raise HistoryLostError("the lake has no copy to go on from", "run `cdc bootstrap` first")
        with Reader(self._log) as reader:
            check_position(reader, self._topic, position)
        return position


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
