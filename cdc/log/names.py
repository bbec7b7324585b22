"""How the topics of a pipeline are named."""

import re
from collections.abc import Callable, Iterable

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName

TopicOf = Callable[[str, TableName], str]
"""Names a table's topic, behind a pipeline's prefix."""
_FOREIGN = re.compile(r"[^a-zA-Z0-9._-]")


def change_topic(prefix: str, table: TableName) -> str:
    """Where every change of a table goes; Debezium's own name for it, its characters replaced as Debezium does."""
    return _FOREIGN.sub("_", f"{prefix}.{table.schema}.{table.table}")


def check_apart(topic_of: TopicOf, prefix: str, names: Iterable[TableName]) -> None:
    """Raises PreconditionError when two tables would share a topic: topics know fewer characters than Postgres."""
    for refusal in sharing(prefix, names, topic_of).values():
        raise refusal


def sharing(prefix: str, names: Iterable[TableName], *topics_of: TopicOf) -> dict[TableName, PreconditionError]:
    """The tables of which a topic is one that another table before them has already.

    Kafka takes no two topics that differ by dots and underscores only, since its metrics write the one for the other.
    """
    topics: dict[str, TableName] = {}
    refusals: dict[TableName, PreconditionError] = {}
    for name in names:
        for topic in (topic_of(prefix, name) for topic_of in topics_of):
            first = topics.setdefault(topic.replace(".", "_"), name)
            if first != name and name not in refusals:
                refusals[name] = PreconditionError(
                    f"{first} and {name} would share the topic {topic}", "leave one out, or rename it"
                )
    return refusals


def transaction_topic(prefix: str) -> str:
    return f"{prefix}.transaction"


def heartbeat_topics(prefix: str) -> list[str]:
    return [f"__debezium-heartbeat.{prefix}"]


def latest_topic(prefix: str, table: TableName) -> str:
    """The compacted topic that holds the newest row of every key."""
    return _FOREIGN.sub("_", f"{prefix}.latest.{table.schema}.{table.table}")


def positions_topic(prefix: str) -> str:
    """The compacted topic in which the latest log keeps its own position."""
    return f"{prefix}.latest-position"
