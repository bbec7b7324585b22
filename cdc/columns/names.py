"""Names of Kafka's columns in Spark, and quoting of names for Spark SQL."""

from enum import StrEnum

from pyspark.sql import Column as Col
from pyspark.sql import functions as F


class KafkaColumn(StrEnum):
    """Columns of Spark's Kafka source."""

    KEY = "key"
    VALUE = "value"
    TOPIC = "topic"
    OFFSET = "offset"


def quoted(name: str) -> str:
    """Quote any identifier for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def within(struct: str, name: str) -> Col:
    """The field `name` of the struct column `struct`."""
    return F.col(struct).getField(name)
