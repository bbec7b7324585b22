"""Column names, once, and names as Spark SQL reads them."""

from enum import StrEnum

from pyspark.sql import Column as Col
from pyspark.sql import functions as F


class KafkaColumn(StrEnum):
    """Columns of Spark's Kafka source."""

    KEY = "key"
    VALUE = "value"
    TOPIC = "topic"
    PARTITION = "partition"
    OFFSET = "offset"


def quoted(name: str) -> str:
    """One identifier as Spark SQL reads it, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def within(struct: str, name: str) -> Col:
    """The field `name` of the struct column `struct`."""
    return F.col(struct).getField(name)
