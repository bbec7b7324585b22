"""What is written outside transactions: topics made, and copies from the executors."""

import time
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from cdc.core.errors import PreconditionError, UnreachableError
from cdc.log import spark_options
from cdc.log.clients.connection import TOO_LARGE_REMEDY
from cdc.log.clients.topics import Admin, Topic
from cdc.log.settings import LogSettings
from sinks.latest.read import SETTLE_SECONDS

BUFFER_BYTES: Final = 32 * 1024 * 1024
"""Kafka's own."""


def make(admin: Admin, topic: Topic) -> None:
    """Create the topic and wait until the brokers know it."""
    admin.create([topic])
    deadline = time.monotonic() + SETTLE_SECONDS
    while topic.name not in admin.topics([topic.name]):
        if time.monotonic() > deadline:
            raise PreconditionError(f"topic {topic.name} was made and is not there", "see the broker's log")


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
        # a record that is larger than all of it is refused
        "kafka.buffer.memory": str(max(BUFFER_BYTES, 2 * log.latest.max_record_bytes)),
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
