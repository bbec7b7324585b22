"""Looks for topics of the capture that somebody has deleted.

A task of Kafka Connect has one producer, which keeps the order of its records: while it waits for such a topic, nothing
of any other table moves. Without a change for that topic it does not wait, and everything looks well.
"""

import time
from collections.abc import Mapping

from cdc.connect.source.heartbeat import heartbeat_table
from cdc.connect.source.schema_history import history_table
from cdc.core.errors import RECAPTURE, CdcError, HistoryLostError, PreconditionError, UnreachableError
from cdc.core.table import TableName
from cdc.core.table_state import ACTIVE
from cdc.log.clients.topics import Admin
from cdc.log.names import change_topic, debezium_heartbeat_topic, transaction_topic
from cdc.run.health import patience
from cdc.run.pipeline import Pipeline


class GoneTopics:
    """Asks the brokers, again and again, for the topics that `cdc follow` reads.

    Of those that only the connector writes, brokers may tell us nothing: a topic that we may not read looks like one
    that is gone.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        src, prefix = pipeline.settings.source, pipeline.settings.log.prefix
        self._order = transaction_topic(prefix)
        self._others = {
            debezium_heartbeat_topic(prefix),
            *(change_topic(prefix, own.name) for own in (heartbeat_table(src), history_table(src))),
        }
        self._since: Mapping[str, float] = {}

    def find_error(self) -> CdcError | None:
        """The error of a topic that is gone, with what helps; None where all are there, or no broker answers."""
        tables = self._look()
        if self._order in self._since:
            return HistoryLostError(f"there is no topic {self._order}, which holds the order of the commits", RECAPTURE)
        if others := sorted(self._others & self._since.keys()):
            return PreconditionError(f"topic {others[0]} is gone", "`cdc bootstrap` makes it again")
        return next((_describe(topic, name) for name, topic in tables.items() if topic in self._since), None)

    def find_tables(self) -> Mapping[TableName, CdcError]:
        """The tables whose changes have had no topic for a while. A copy makes it again, and has what was in it."""
        tables, latest = self._look().items(), time.monotonic() - patience.GONE_SECONDS
        return {name: _describe(topic, name) for name, topic in tables if self._since.get(topic, latest + 1) <= latest}

    def _look(self) -> Mapping[TableName, str]:
        """Look for what is gone; returns the topics of the tables that the lake follows."""
        s, active = self._pipeline.settings, self._pipeline.lake_follower.tables.select(*ACTIVE)
        tables = {name: change_topic(s.log.prefix, name) for name in sorted(active) if name in s.selection}
        required = {self._order, *self._others, *tables.values()}
        try:
            missing = self._find_missing(required)
            # a table may just have been left out, or be about to be made anew
            if missing - self._since.keys():
                time.sleep(patience.POLL_SECONDS)
                missing &= self._find_missing(required)
        except UnreachableError:
            # who reads the log reports that
            missing = set()
        now = time.monotonic()
        self._since = {topic: self._since.get(topic, now) for topic in missing}
        return tables

    def _find_missing(self, required: set[str]) -> set[str]:
        with Admin(self._pipeline.settings.log) as admin:
            return required - admin.topics([*required]).keys()


def _describe(topic: str, table: TableName) -> CdcError:
    return PreconditionError(f"topic {topic} is gone", f"`cdc follow` copies {table} again by itself")
