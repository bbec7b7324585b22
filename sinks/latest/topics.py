"""Creates and checks the latest topics."""

from collections.abc import Sequence

from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from cdc.log.clients.topics import Admin, ensure_topic
from cdc.log.names import latest_topic
from cdc.log.settings import LogSettings
from cdc.sinks.latest import layout, read


def make_of(admin: Admin, log: LogSettings, table: Table, *, is_ours: bool) -> bool:
    """Create the table's topic if it does not exist; returns whether the table must be registered.

    `is_ours`: an existing topic is this follower's. Raises PreconditionError for a table that no topic can hold, and
    for a topic that cannot be created, differs, or is not ours.
    """
    layout.check_table(table)
    wanted = layout.topic_of(log, table.name)
    if ensure_topic(admin, wanted):
        return True
    # an empty topic may be ours: `cdc follow` may have been killed between creating and registering it
    if not is_ours and not read.is_empty(log, wanted.name):
        raise PreconditionError(
            f"topic {wanted.name} is there already and is not this follower's",
            "choose another log.prefix, or delete it",
        )
    return not is_ours


def missing(log: LogSettings, names: Sequence[TableName]) -> list[TableName]:
    """Find the tables without a topic."""
    topics = {name: latest_topic(log.prefix, name) for name in names}
    with Admin(log) as admin:
        there = admin.topics([*topics.values()])
    return [name for name, topic in topics.items() if topic not in there]
