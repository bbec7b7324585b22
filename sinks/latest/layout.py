"""Names and configuration of the latest topics."""

from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from cdc.log.clients.topics import Topic, compaction_config
from cdc.log.names import latest_topic, positions_topic
from cdc.log.settings import LogSettings


def topic_of(log: LogSettings, name: TableName) -> Topic:
    return Topic(latest_topic(log.prefix, name), log.partitions, log.replication_factor, compaction_config(log))


def check_table(table: Table) -> None:
    """Raise PreconditionError for a table that no compacted topic can hold."""
    # brokers refuse records without a key in a compacted topic
    if not table.key:
        raise PreconditionError(
            f"{table.name} has no primary key, and a compacted topic needs one",
            "give it one, name one under source.keys, or the table under leave_out of this follower",
        )


def topic_of_positions(log: LogSettings) -> Topic:
    return Topic(positions_topic(log.prefix), 1, log.replication_factor, compaction_config(log))
