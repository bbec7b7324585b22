"""The state of one latest log, and the transactions in which it changes."""

from collections.abc import Sequence
from functools import partial

from cdc.core.position import Position
from cdc.log.clients.transactional_writer import TransactionalWriter
from cdc.log.settings import LogSettings
from cdc.sinks.latest import layout
from cdc.sinks.latest import state as states
from cdc.sinks.latest.state import LatestState, TableRecord
from cdc.sinks.owner import Owner
from cdc.sinks.transactional_state import TopicState, TransactionalState


class StateWriter(TransactionalState[LatestState]):
    """Writes the positions topic."""

    def __init__(self, log: LogSettings, owner: Owner) -> None:
        self._owner = owner
        topic = layout.topic_of_positions(log)
        self._positions = topic.name
        empty = LatestState()
        reader = TopicState(log, topic.name, empty, partial(states.after, owner))
        super().__init__(log, owner, empty, reader, topic)

    def register(self, records: Sequence[TableRecord]) -> None:
        """Write records of tables in a transaction of their own."""
        with self.transaction() as writer:
            for record in records:
                self.write_record(writer, record)
        for record in records:
            self.state = self.state.having(record)

    def write_record(self, writer: TransactionalWriter, record: TableRecord) -> None:
        writer.write(self._positions, *states.registration_record(self._owner, record))

    def write_position(self, writer: TransactionalWriter, position: Position | None) -> None:
        writer.write(self._positions, *states.position_record(self._owner, position))
