"""Reads the changes of a run of transactions: from a follower's offsets, as far as the run's counts reach."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column as Col
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from cdc.columns.batch import MARKER, ChangeBatch, TableChanges, rank_frame
from cdc.columns.decode import decode
from cdc.columns.names import Changes, Message
from cdc.core.change import Place
from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.core.position import Offsets
from cdc.core.table import Table
from cdc.core.transaction import Run, TransactionEnd
from cdc.log.kafka_client import Reader
from cdc.log.names import change_topic
from cdc.log.ranges import Bounds, at_end, clipped, first_guess, further
from cdc.log.settings import LogSettings
from cdc.log.spark_options import between

POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run's changes, held in Spark's storage until `release`, and where reading goes on behind them."""

    batch: ChangeBatch
    next_offsets: Offsets

    def release(self) -> None:
        for changes in self.batch.tables.values():
            changes.decoded.unpersist()


@dataclass(frozen=True, slots=True)
class _Tally:
    """What one look at a topic found of a run."""

    found: int
    next_offsets: Bounds
    truncates: tuple[Place, ...]
    refused: int
    moved: int


class ChangeReader:
    """Reads change topics for one follower; `placeholder` is the connector's for values that were not sent."""

    def __init__(
        self, spark: SparkSession, log: LogSettings, placeholder: str, *, parallel: int = 2, patience: float = 60.0
    ) -> None:
        self._spark = spark
        self._log = log
        self._placeholder = placeholder
        self._parallel = parallel
        self._patience = patience
        self._bounds = Reader(log)
        self._one_at_a_time = threading.Lock()

    def close(self) -> None:
        self._bounds.close()

    def read(self, run: Run, tables: Sequence[Table], start: Offsets) -> ReadRun:
        """Read what the run has of these tables.

        Waits while an END is visible before its changes. Raises HistoryLostError, naming the table, when the log does
        not hold as many changes as the ENDs count.
        """
        counts = run.counts(str(table.name) for table in tables)
        touched = [table for table in tables if str(table.name) in counts]
        with ThreadPoolExecutor(self._parallel) as threads:
            jobs = [
                threads.submit(self._read_table, table, counts[str(table.name)], run.ends, start) for table in touched
            ]
        found = _all_or_none(jobs)
        batch = ChangeBatch(run.ends, {table.name: each[0] for table, each in zip(touched, found, strict=True)})
        moved = {change_topic(self._log.prefix, t.name): each[1] for t, each in zip(touched, found, strict=True)}
        return ReadRun(batch, {**start, **moved})

    def _read_table(
        self, table: Table, count: int, ends: Sequence[TransactionEnd], offsets: Offsets
    ) -> tuple[TableChanges, Bounds]:
        topic = change_topic(self._log.prefix, table.name)
        beginning, end = self._limits(topic)
        start = clipped(offsets.get(topic, {}), beginning)
        until: Bounds = first_guess(start, end, count)
        deadline = time.monotonic() + self._patience
        while True:
            with _kept(self._decoded(topic, start, until, table)) as decoded:
                tally = _tally(decoded, ends)
                if tally.found >= count and _distinct(decoded, ends, tally, count):
                    changes = TableChanges(
                        decoded, tally.truncates, tally.refused, moves=tally.moved > 0, redelivered=tally.found > count
                    )
                    return changes, {**start, **tally.next_offsets}
            decoded.unpersist()
            until, end = self._further(topic, start, until, end, deadline, f"{tally.found} of {count} changes")

    def _decoded(self, topic: str, start: Bounds, until: Bounds, table: Table) -> DataFrame:
        options = between(self._log, {topic: start}, {topic: until})
        messages = self._spark.read.format("kafka").options(**options).load()
        return decode(messages, table, self._placeholder)

    def _further(
        self, topic: str, start: Bounds, until: Bounds, end: Bounds, deadline: float, found: str
    ) -> tuple[Bounds, Bounds]:
        while at_end(until, end):
            if time.monotonic() > deadline:
                raise HistoryLostError(
                    f"{topic} holds {found} that its transactions count",
                    "its retention is over, or it was written by another hand: bootstrap again",
                )
            time.sleep(POLL_SECONDS)
            end = self._limits(topic)[1]
        return further(start, until, end), end

    def _limits(self, topic: str) -> tuple[Bounds, Bounds]:
        with self._one_at_a_time:
            beginning, end = self._bounds.beginning([topic])[topic], self._bounds.end([topic])[topic]
        if not beginning:
            raise PreconditionError(f"there is no topic {topic}", "run `cdc bootstrap`")
        return beginning, end


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame in Spark's storage, where it stays unless the context fails."""
    try:
        yield frame.persist()
    except BaseException:
        frame.unpersist()
        raise


def _all_or_none(jobs: "Sequence[Future[tuple[TableChanges, Bounds]]]") -> list[tuple[TableChanges, Bounds]]:
    """The results of ended jobs; when one failed, its failure, and what the others hold is released."""
    failures = [error for job in jobs if (error := job.exception())]
    if failures:
        for job in jobs:
            if not job.exception():
                job.result()[0].decoded.unpersist()
        raise failures[0]
    return [job.result() for job in jobs]


def _tally(decoded: DataFrame, ends: Sequence[TransactionEnd]) -> _Tally:
    own = F.col(Changes.RANK).isNotNull()
    refused = F.col(Changes.REFUSAL).isNotNull() & (own | F.col(Changes.TX_ID).isNull())
    place = F.struct(F.col(Changes.RANK), F.col(Changes.TOTAL_ORDER))
    rows = (
        _with_ranks(decoded, ends)
        .groupBy(Message.PARTITION)
        .agg(
            F.count_if(own).alias("found"),
            F.max(F.when(own, F.col(Message.OFFSET))).alias("last"),
            F.count_if(refused).alias("refused"),
            F.count_if(own & F.col(Changes.MOVED_FROM).isNotNull() & (F.size(Changes.UNSENT) > 0)).alias("moved"),
            F.collect_set(F.when(own & (F.col(Changes.OP) == "t"), place)).alias("truncates"),
        )
        .collect()
    )
    return _Tally(
        sum(row["found"] for row in rows),
        {row[Message.PARTITION]: row["last"] + 1 for row in rows if row["last"] is not None},
        tuple(_place(each) for row in rows for each in row["truncates"]),
        sum(row["refused"] for row in rows),
        sum(row["moved"] for row in rows),
    )


def _place(found: Row) -> Place:
    return Place(found[Changes.RANK], found[Changes.TOTAL_ORDER])


def _distinct(decoded: DataFrame, ends: Sequence[TransactionEnd], tally: _Tally, count: int) -> bool:
    """Redelivered changes do not stand in for missing ones."""
    if tally.found == count:
        return True
    own = _with_ranks(decoded, ends).where(F.col(Changes.RANK).isNotNull())
    return own.select(Changes.TX_ID, Changes.TOTAL_ORDER).distinct().count() >= count


def _with_ranks(decoded: DataFrame, ends: Sequence[TransactionEnd]) -> DataFrame:
    ranks = F.broadcast(rank_frame(decoded.sparkSession, ends))
    same: Col = F.col(Changes.TX_ID) == F.col(MARKER)
    return decoded.join(ranks, same, "left")
