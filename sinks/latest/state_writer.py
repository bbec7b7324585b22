"""The state of one latest log, and the transactions in which it changes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from cdc.core.position import Position
from cdc.log.clients.transactional_writer import TransactionalWriter
from cdc.log.settings import LogSettings
from cdc.sinks.latest import layout, topics
from cdc.sinks.latest import state as states
from cdc.sinks.latest.state import LatestState, TableRecord
from cdc.sinks.owner import Owner
from cdc.sinks.transactional_state import TopicState, TransactionalState


class StateWriter(TransactionalState[LatestState]):
    """Writes the positions topic.

    If somebody deletes that topic under a writer, its state is written anew: without it, the topics of the tables would
    be nobody's.
    """

    def __init__(self, log: LogSettings, owner: Owner) -> None:
        self._owner = owner
        topic = layout.topic_of_positions(log)
        self._positions = topic.name
        empty = LatestState()
        reader = TopicState(log, topic.name, empty, partial(states.after, owner))
        super().__init__(log, owner, empty, reader, topic)
        self._empty = self._last = empty

    def close(self) -> None:
        super().close()
        # from here on, another one may write
        self._last = self._empty

    def _close(self) -> None:
        # of a writer that has failed, whose transaction counts for nothing
        if self.has_writer and self.state != self._empty:
            self._last = self.state
        super()._close()

    def open(self) -> TransactionalWriter:
        is_new = not self.has_writer
        writer = super().open()
        # whoever else had taken over has left a claim, and nobody deletes single records
        if is_new and self._last != self._empty and self.state == self._empty:
            self._restore(self._last)
        return writer

    def open_again(self) -> None:
        """Open a writer that has failed: what it knows may be all that is known."""
        if self._last != self._empty:
            self.open()

    def _restore(self, lost: LatestState) -> None:
        # of a table whose topic is gone as well, nothing is left
        gone = topics.missing(self._log, [*lost.tables])
        records = [replace(each, bookmark=None) if name in gone else each for name, each in lost.tables.items()]
        with self.transaction() as writer:
            for record in records:
                self.write_record(writer, record)
            self.write_position(writer, lost.position)
        self.state = LatestState(lost.position, {record.table.name: record for record in records})

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
