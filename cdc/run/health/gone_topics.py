"""Looks for topics of the capture that somebody has deleted.

A task of Kafka Connect has one producer, which keeps the order of its records: while it waits for such a topic, nothing
of any other table moves. Without a change for that topic it does not wait, and everything looks well.
"""

import time
from collections.abc import Mapping
from typing import Final

from cdc.connect.source.heartbeat import heartbeat_table
from cdc.connect.source.schema_history import history_table
from cdc.core.errors import RECAPTURE, CdcError, HistoryLostError, PreconditionError
from cdc.core.table import TableName
from cdc.core.table_state import ACTIVE
from cdc.core.waiting import Deadline
from cdc.log.clients.cluster import read_operations
from cdc.log.clients.knock import check_reachable
from cdc.log.clients.topics import Admin
from cdc.log.names import change_topic, debezium_heartbeat_topic, transaction_topic
from cdc.log.transaction_topic import no_order_error
from cdc.run.health import patience
from cdc.run.pipeline import Pipeline

FRESH_SECONDS: Final = 1.0
"""So long the answer to one caller is one to the next, who asks in the same look."""


class TableTopicGoneError(PreconditionError):
    """The topic of one table's changes is gone. Who follows the lake copies that table again."""


class GoneTopics:
    """Asks the brokers, again and again, for the topics that `cdc follow` reads.

    Not for those that the connector alone writes: of a topic that we may not know of, brokers say nothing.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        src, prefix = pipeline.settings.source, pipeline.settings.log.prefix
        self._order = transaction_topic(prefix)
        self._read_on = {change_topic(prefix, own.name) for own in (heartbeat_table(src), history_table(src))}
        self._others = {debezium_heartbeat_topic(prefix), *self._read_on}
        self._tables: Mapping[TableName, str] = {}
        self._since: Mapping[str, float] = {}
        self._fresh = Deadline(0)

    def find_error(self) -> CdcError | None:
        """The error of a topic that is gone, with what helps; None where all are there, or no broker answers."""
        self._look()
        if self._order in self._since:
            return no_order_error(self._order)
        if others := sorted(self._others & self._since.keys()):
            return self._describe(others[0])
        return next((_of_table(topic, name) for name, topic in self._tables.items() if topic in self._since), None)

    def find_tables(self) -> Mapping[TableName, CdcError]:
        """The tables whose changes have had no topic for a while. A copy makes it again, and has what was in it.

        Each is named once in that while: who asks has it copied, which may be done before the next look.
        """
        self._look()
        # without the order of the commits, copies are in vain
        if self._order in self._since:
            return {}
        latest = time.monotonic() - patience.GONE_SECONDS
        found = {name: topic for name, topic in self._tables.items() if self._since.get(topic, latest + 1) <= latest}
        self._since = {topic: at for topic, at in self._since.items() if topic not in found.values()}
        return {name: _of_table(topic, name) for name, topic in found.items()}

    def _describe(self, topic: str) -> CdcError:
        """The error of a topic of the capture's own."""
        position = self._pipeline.lake_follower.position()
        if topic in self._read_on and position and any(position.next_offsets.get(topic, {}).values()):
            # a new one begins below the place where it is read on
            return HistoryLostError(f"topic {topic} is gone", RECAPTURE)
        return PreconditionError(f"topic {topic} is gone", "`cdc bootstrap` makes it again")

    def _look(self) -> None:
        if not self._fresh.is_past:
            return
        s, tables = self._pipeline.settings, self._pipeline.lake_follower.tables
        # others may have stopped and copied them meanwhile
        tables.look_again(())
        names = sorted(name for name in tables.select(*ACTIVE) if name in s.selection)
        self._tables = {name: change_topic(s.log.prefix, name) for name in names}
        required = {self._order, *self._others, *self._tables.values()}
        try:
            check_reachable(s.log)
            missing = self._find_missing(required)
            # a table may just have been left out, or be about to be made anew
            if missing - self._since.keys():
                time.sleep(patience.POLL_SECONDS)
                missing &= self._find_missing(required)
        except CdcError:
            # who reads the log reports that
            missing = set()
        now = time.monotonic()
        self._since = {topic: self._since.get(topic, now) for topic in missing}
        self._fresh = Deadline(FRESH_SECONDS)

    def _find_missing(self, required: set[str]) -> set[str]:
        log = self._pipeline.settings.log
        with Admin(log) as admin:
            missing = required - admin.topics([*required]).keys()
        # by name, brokers tell one that is gone from one that we may not know of
        return missing - read_operations(log, sorted(missing)).keys() if missing else missing


def _of_table(topic: str, table: TableName) -> CdcError:
    return TableTopicGoneError(f"topic {topic} is gone", f"`cdc follow` copies {table} again by itself")
