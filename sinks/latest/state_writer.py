"""The state of one latest log, and the transactions in which it changes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cdc.core.errors import RefusedError
from cdc.core.position import Position
from cdc.log.clients.transactional_writer import TransactionalWriter
from cdc.log.names import positions_topic
from cdc.log.settings import LogSettings
from cdc.sinks.latest import state as states
from cdc.sinks.latest.state import LatestState, StateReader, TableRecord
from cdc.sinks.owner import Owner


class StateWriter:
    """Writes the positions topic; opened by the first transaction, so that those who only read disturb nobody.

    `state` is the writer's copy of the topic, up to date from `open_writer` on, since nobody else can write.
    """

    def __init__(self, log: LogSettings, owner: Owner) -> None:
        self._log = log
        self._owner = owner
        self._positions = positions_topic(log.prefix)
        self._writer: TransactionalWriter | None = None
        self._reader = StateReader(log, self._positions, owner)
        self.state = LatestState()

    @property
    def has_writer(self) -> bool:
        return self._writer is not None

    def close(self) -> None:
        """Close the connections; the next transaction or question opens them again."""
        self._reader.close()
        writer, self._writer = self._writer, None
        if writer:
            writer.close()

    def read_state(self) -> LatestState:
        """The state: the writer's own, or read on from the topic."""
        return self.state if self._writer else self._reader.read()

    def open_writer(self) -> TransactionalWriter:
        """Open the writer, which fences an older one and aborts its open transaction; then read the state."""
        if self._writer is None:
            # an id that the owner fixes: a later writer fences this one (KIP-98)
            self._writer = TransactionalWriter(self._log, f"cdc-{self._owner.pipeline}-{self._owner.follower}")
            try:
                # after fencing: an older writer can change the state no more
                self.state = self._reader.read()
                # from here on it is known
                self._reader.close()
            except BaseException:
                self.close()
                raise
        return self._writer

    @contextmanager
    def transaction(self) -> Iterator[TransactionalWriter]:
        """Open one transaction. A fenced writer stays fenced; after other failures the next call opens a new one."""
        writer = self.open_writer()
        try:
            with writer.transaction():
                yield writer
        except RefusedError:
            # stays open: a new writer would fence the follower that has taken over
            raise
        except BaseException:
            self.close()
            raise

    def register(self, records: Sequence[TableRecord]) -> None:
        """Write records of tables in a transaction of their own."""
        with self.transaction() as writer:
            for record in records:
                self.write_record(writer, record)
        # after the commit: a failed transaction registers nothing
        for record in records:
            self.state = self.state.having(record)

    def write_record(self, writer: TransactionalWriter, record: TableRecord) -> None:
        writer.write(self._positions, *states.registration_record(self._owner, record))

    def write_position(self, writer: TransactionalWriter, position: Position | None) -> None:
        writer.write(self._positions, *states.position_record(self._owner, position))
