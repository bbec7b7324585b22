"""The names of a pipeline's topics."""

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Final

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName

LATEST: Final = "latest"
"""The kind of topics of latest logs, their positions included."""
TopicOf = Callable[[str, TableName], str]
"""Makes the name of a table's topic, from a pipeline's prefix and the table's name."""
_PLAIN, _DIGESTED = re.compile(r"[a-zA-Z0-9_-]+"), re.compile(r".*-[0-9a-f]{16}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST = 40
"""Characters of each part of a name that has a digest: a topic's name has at most 249."""


def is_plain(table: TableName) -> bool:
    """Is the table's name valid in a topic's name? Then the topic has the same name as without our plugin."""
    # a name that ends like a digest gets one itself: else its topic could be another table's
    return bool(
        _PLAIN.fullmatch(table.schema) and _PLAIN.fullmatch(table.table) and not _DIGESTED.fullmatch(table.table)
    )


def change_topic(prefix: str, table: TableName) -> str:
    """The topic of a table's changes; `connect/plugin/OwnTopics.java` must make the same name."""
    return f"{prefix}.{_unique(table)}"


def _unique(table: TableName) -> str:
    """A unique name: one that is not valid in a topic's name is shortened, and gets a digest appended."""
    if is_plain(table):
        return str(table)
    # no name has a NUL, so schema `a` with table `b.c` and schema `a.b` with table `c` differ
    digest = hashlib.sha256(f"{table.schema}\0{table.table}".encode()).hexdigest()[:16]
    schema, name = (_FOREIGN.sub("_", part)[:_LONGEST] for part in (table.schema, table.table))
    return f"{schema}.{name}-{digest}"


def check_distinct(topic_of: TopicOf, prefix: str, names: Iterable[TableName]) -> None:
    """Raise PreconditionError when two tables would share a topic."""
    for refusal in find_shared_topics(prefix, names, topic_of).values():
        raise refusal


def find_shared_topics(
    prefix: str, names: Iterable[TableName], *topics_of: TopicOf
) -> dict[TableName, PreconditionError]:
    """Find the tables with a topic that an earlier table has already.

    Kafka refuses topics that differ by dots and underscores only, since its metrics replace the one by the other.
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


def message_topic(prefix: str) -> str:
    """Debezium's topic for messages of `pg_logical_emit_message`; a table's topic has one more dot."""
    return f"{prefix}.message"


def debezium_heartbeat_topic(prefix: str) -> str:
    return f"__debezium-heartbeat.{prefix}"


def offsets_topic(prefix: str) -> str:
    """Where the connector keeps its offsets; a table's topic has one more dot."""
    return f"{prefix}.connect-offsets"


def kind_of_topic(prefix: str, topic: str) -> str | None:
    """What a topic of a pipeline has: changes, transactions, heartbeats, offsets, or latest; None for another's."""
    singles = {
        transaction_topic(prefix): "transactions",
        debezium_heartbeat_topic(prefix): "heartbeats",
        offsets_topic(prefix): "offsets",
    }
    if topic in singles:
        return singles[topic]
    if not topic.startswith(f"{prefix}."):
        return None
    return LATEST if topic.startswith(f"{prefix}.latest") else "changes"


def latest_topic(prefix: str, table: TableName) -> str:
    """The compacted topic with the newest row of every key."""
    return f"{prefix}.latest.{_unique(table)}"


def positions_topic(prefix: str) -> str:
    """The compacted topic with the position of the latest log."""
    return f"{prefix}.latest-position"
