"""Messages of change topics as a frame, for runs that are worth a Spark job."""

from pyspark.sql import Column as Col
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.names import Message
from cdc.core.position import Offsets
from cdc.log.clients.standing_consumer import NEW_KEY_HEADER, OLD_KEY_HEADER
from cdc.log.settings import LogSettings
from cdc.log.spark_options import between


def messages(spark: SparkSession, log: LogSettings, start: Offsets, until: Offsets) -> DataFrame:
    """The committed messages of [start, until), tombstones left out: columns of `MESSAGES`.

    A partition of the frame is one of a topic, so that all messages of a key are in one, in their order.
    """
    read = spark.read.format("kafka").options(**between(log, start, until)).load()
    own = [F.col(name) for name in (Message.TOPIC, Message.PARTITION, Message.OFFSET, Message.KEY, Message.VALUE)]
    return read.where(F.col(Message.VALUE).isNotNull()).select(
        *own, _header(OLD_KEY_HEADER).alias("old_key"), _header(NEW_KEY_HEADER).isNotNull().alias("moves_on")
    )


def _header(name: str) -> Col:
    """A header's value; only changed keys have any, and looking for one costs as much as reading the message."""
    matching = F.filter(F.col(Message.HEADERS), lambda header: header["key"] == name)
    return F.when(F.size(Message.HEADERS) > 0, F.get(matching, F.lit(0))["value"])
