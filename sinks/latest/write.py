"""Writes copies from the executors, outside of transactions."""

import re
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.columns.names import KafkaColumn
from cdc.core.errors import TableStoppedError, UnreachableError
from cdc.log import spark_options
from cdc.log.clients.connection import TOO_LARGE_REMEDY
from cdc.log.settings import LogSettings

_OF_TOPIC: Final = re.compile(
    r"(?:TopicAuthorization|InvalidTopic|InvalidRecord|UnknownTopicOrPartition)Exception: ([^\n]*)"
)
"""Errors of Kafka's Java client that are about one topic."""

BUFFER_BYTES: Final = 32 * 1024 * 1024
"""Kafka's default of buffer.memory."""


def write(records: DataFrame, log: LogSettings, topic: str, client: str) -> None:
    """Write records (columns KEY and VALUE of `KafkaColumn`, binary) from the executors, without a transaction.

    `client`: the client id; Spark reuses a cached producer with the same one. Raises TableStoppedError for refused
    records (RecordTooLargeError for large ones), UnreachableError when no broker answers.
    """
    options = {
        **spark_options.cluster_options(log),
        "kafka.client.id": client,
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "kafka.compression.type": "lz4",
        "kafka.linger.ms": "20",
        "kafka.batch.size": str(256 * 1024),
        "kafka.max.request.size": str(log.latest.max_record_bytes),
        # a record larger than the buffer is refused
        "kafka.buffer.memory": str(max(BUFFER_BYTES, 2 * log.latest.max_record_bytes)),
    }
    try:
        records.write.format("kafka").options(**options).option("topic", topic).save()
    except (PySparkException, Py4JError) as error:
        raise _to_cdc_error(log, topic, error) from error


def largest_key(records: DataFrame) -> bytes:
    """Find the key of the largest record; reads all of them."""
    found = records.orderBy(F.length(F.col(KafkaColumn.VALUE)).desc_nulls_last()).select(KafkaColumn.KEY).first()
    return bytes(found[0]) if found else b"{}"


def _to_cdc_error(log: LogSettings, topic: str, error: Exception) -> Exception:
    # an executor's error comes as text of the job's failure: go by the Java class in it
    text = str(error)
    if "RecordTooLargeException" in text:
        most = f"{log.latest.max_record_bytes:,} bytes"
        return RecordTooLargeError(f"a row is larger than {most} as a record of {topic}", TOO_LARGE_REMEDY)
    if refused := _OF_TOPIC.search(text):
        return TableStoppedError(
            f"Kafka {log.bootstrap} refuses records of {topic}: {refused[1]}", "see the broker's log"
        )
    if "TimeoutException" in text:
        return UnreachableError(f"Kafka {log.bootstrap} does not answer", "check log.bootstrap; is it running?")
    return error


class RecordTooLargeError(TableStoppedError):
    """A row does not fit into a record."""
