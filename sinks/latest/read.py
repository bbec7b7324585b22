"""The topics of a latest log: as they should be, and the rows in them."""

import time
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.names import Message
from cdc.core.errors import PreconditionError, UnreachableError
from cdc.core.position import Offsets
from cdc.core.table import TableName
from cdc.log import spark_options
from cdc.log.kafka_client import TOO_LARGE_REMEDY, Admin, Reader, Topic
from cdc.log.names import latest_topic, positions_topic
from cdc.log.settings import LogSettings

SETTLE_SECONDS: Final = 10.0
"""How long a commit's markers may take to reach every partition; a longer transaction is one that still runs."""
POLL_SECONDS: Final = 0.02


def topic_of(log: LogSettings, name: TableName) -> Topic:
    """The table's topic as it should be."""
    return Topic(latest_topic(log.prefix, name), log.partitions, log.replication_factor, _compacted(log))


def topic_of_positions(log: LogSettings) -> Topic:
    return Topic(positions_topic(log.prefix), 1, log.replication_factor, _compacted(log))


def check_partitions(wanted: Topic, present: Topic) -> None:
    """Raises PreconditionError when the topic has another partition count: keys would lie elsewhere than before."""
    if present.partitions != wanted.partitions:
        raise PreconditionError(
            f"topic {wanted.name} has {present.partitions} partitions, not {wanted.partitions}",
            "set log.partitions back: with another count, keys would move",
        )


def make(admin: Admin, topic: Topic) -> None:
    """Create the topic and wait until the brokers know it."""
    admin.create([topic])
    deadline = time.monotonic() + SETTLE_SECONDS
    while topic.name not in admin.topics([topic.name]):
        if time.monotonic() > deadline:
            raise PreconditionError(f"topic {topic.name} was made and is not there", "see the broker's log")


def is_empty(log: LogSettings, topic: str) -> bool:
    with Reader(log, committed=False) as reader:
        return reader.beginning([topic]) == reader.end([topic])


def taken(log: LogSettings, topic: str) -> int:
    """How many records the topic has ever taken, committed or not; 0 where there is none."""
    with Reader(log, committed=False) as reader:
        return sum(reader.end([topic])[topic].values())


def live_keys(log: LogSettings, topic: str) -> int:
    """How many keys have a value, of what is committed now; reads the topic from its beginning."""
    start, until = committed(log, topic)
    live: set[bytes | None] = set()
    with Reader(log) as reader:
        for partition, first in start[topic].items():
            for record in reader.read(topic, partition, first, until[topic][partition]):
                (live.discard if record.value is None else live.add)(record.key)
    return len(live)


def newest(spark: SparkSession, log: LogSettings, topic: str) -> DataFrame:
    """The newest record of every key that has a value: columns KEY and VALUE of `Message`, both binary.

    What is committed when this is called, and nothing later.
    """
    start, until = committed(log, topic)
    records = spark.read.format("kafka").options(**spark_options.between(log, start, until)).load()
    value = F.struct(F.col(Message.VALUE))
    latest = records.groupBy(Message.KEY).agg(F.max_by(value, F.col(Message.OFFSET)).alias("newest"))
    found = F.col("newest").getField(Message.VALUE)
    return latest.where(found.isNotNull()).select(Message.KEY, found.alias(Message.VALUE))


def committed(log: LogSettings, topic: str) -> tuple[Offsets, Offsets]:
    """The offsets between which a topic's committed records lie, commits under way included.

    A commit is answered before its markers are in every partition: until then, what it wrote is not yet to be read.
    """
    with Reader(log) as reader, Reader(log, committed=False) as beyond:
        start, written = reader.beginning([topic]), beyond.end([topic])
        deadline = time.monotonic() + SETTLE_SECONDS
        while _behind(until := reader.end([topic]), written, topic) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    return start, until


def write(records: DataFrame, log: LogSettings, topic: str) -> None:
    """Write records (columns KEY and VALUE of `Message`) from the executors, in no transaction.

    Raises PreconditionError for a record that is too large, UnreachableError when no broker answers.
    """
    options = {
        **spark_options.cluster(log),
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "kafka.compression.type": "lz4",
        "kafka.linger.ms": "20",
        "kafka.batch.size": str(256 * 1024),
        "kafka.max.request.size": str(log.latest.max_record_bytes),
    }
    try:
        records.write.format("kafka").options(**options).option("topic", topic).save()
    except (PySparkException, Py4JError) as error:
        raise _as_ours(log, topic, error) from error


def _as_ours(log: LogSettings, topic: str, error: Exception) -> Exception:
    if "RecordTooLargeException" in str(error):
        most = f"{log.latest.max_record_bytes:,} bytes"
        return PreconditionError(f"a row is larger than {most} as a record of {topic}", TOO_LARGE_REMEDY)
    if "TimeoutException" in str(error):
        return UnreachableError(f"Kafka {log.bootstrap} does not answer", "check log.bootstrap; is it running?")
    return error


def _behind(until: Offsets, written: Offsets, topic: str) -> bool:
    return any(until[topic][partition] < end for partition, end in written[topic].items())


def _compacted(log: LogSettings) -> dict[str, str]:
    kept = log.latest
    return {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": _milliseconds(kept.min_compaction_lag_seconds),
        "max.compaction.lag.ms": _milliseconds(kept.max_compaction_lag_seconds),
        "delete.retention.ms": _milliseconds(kept.delete_retention_seconds),
        "segment.ms": _milliseconds(kept.segment_seconds),
        "min.cleanable.dirty.ratio": str(kept.dirty_ratio),
        "max.message.bytes": str(kept.max_record_bytes),
    }


def _milliseconds(seconds: int) -> str:
    return str(seconds * 1000)
