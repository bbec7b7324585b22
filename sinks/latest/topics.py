"""The topics of a latest log: made where they are missing, and missed."""

import time
from collections.abc import Sequence

from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from cdc.log.clients.topics import Admin, Topic
from cdc.log.names import latest_topic
from cdc.log.settings import LogSettings
from sinks.latest import layout, read
from sinks.latest.read import SETTLE_SECONDS


def make_of(admin: Admin, log: LogSettings, table: Table, *, is_ours: bool) -> bool:
    """Make the table's topic if it is not there; says whether the table is to be registered.

    `is_ours`: a topic of that name is this follower's. Raises PreconditionError for a table that no topic can follow,
    and for a topic that cannot be made, differs, or is somebody else's.
    """
    layout.check_table(table)
    wanted = layout.topic_of(log, table.name)
    if ensure(admin, wanted):
        return True
    if not is_ours and not read.is_empty(log, wanted.name):
        raise PreconditionError(
            f"topic {wanted.name} is there already and is not this follower's",
            "choose another log.prefix, or delete it",
        )
    return not is_ours


def ensure(admin: Admin, wanted: Topic) -> bool:
    """Make the topic if it is not there; says whether it was made. Raises PreconditionError for one that differs."""
    present = admin.topics([wanted.name]).get(wanted.name)
    if present is None:
        make(admin, wanted)
        return True
    layout.check_partitions(wanted, present)
    return False


def missing(log: LogSettings, names: Sequence[TableName]) -> list[TableName]:
    """Those of these tables that have no topic."""
    topics = {name: latest_topic(log.prefix, name) for name in names}
    with Admin(log) as admin:
        there = admin.topics([*topics.values()])
    return [name for name, topic in topics.items() if topic not in there]


def make(admin: Admin, topic: Topic) -> None:
    """Create the topic and wait until the brokers know it."""
    admin.create([topic])
    deadline = time.monotonic() + SETTLE_SECONDS
    while topic.name not in admin.topics([topic.name]):
        if time.monotonic() > deadline:
            raise PreconditionError(f"topic {topic.name} was made and is not there", "see the broker's log")
