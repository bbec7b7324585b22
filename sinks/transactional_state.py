"""The state of a follower in Kafka: read from its topics, and changed in transactions of one writer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from cdc.core.errors import RefusedError
from cdc.log.clients.reader import Reader, Record, read_bounds
from cdc.log.clients.transactional_writer import TransactionalWriter
from cdc.log.settings import LogSettings
from cdc.sinks.owner import Owner

State = TypeVar("State")


class TransactionalState(Generic[State]):
    """The state that `read` finds in the topics, and the one writer of them.

    The writer is opened by the first transaction, so that those who only read disturb nobody. From then on `state` is
    what the topics have, since nobody else can write: a later writer fences this one (KIP-98). Whoever writes records
    sets `state` anew, after the commit: a failed transaction changes nothing.
    """

    def __init__(self, log: LogSettings, owner: Owner, empty: State, read: Callable[[], State]) -> None:
        self._log = log
        # an id that the owner fixes: a later writer fences this one
        self._id = f"cdc-{owner.pipeline}-{owner.follower}"
        self._read = read
        self._writer: TransactionalWriter | None = None
        self.state = empty

    @property
    def has_writer(self) -> bool:
        return self._writer is not None

    def close(self) -> None:
        """Close the connections; the next transaction opens them again."""
        writer, self._writer = self._writer, None
        if writer:
            writer.close()

    def read(self) -> State:
        """The state: the writer's own, or read from the topics."""
        return self.state if self._writer else self._read()

    def open(self) -> TransactionalWriter:
        """Open the writer, which fences an older one and aborts its open transaction; then read the state."""
        if self._writer is None:
            self._writer = TransactionalWriter(self._log, self._id)
            try:
                # after fencing: an older writer can change the state no more
                self.state = self._read()
            except BaseException:
                self.close()
                raise
        return self._writer

    @contextmanager
    def transaction(self) -> Iterator[TransactionalWriter]:
        """Open one transaction. A fenced writer stays fenced; after other failures the next call opens a new one."""
        writer = self.open()
        try:
            with writer.transaction():
                yield writer
        except RefusedError:
            # stays open: a new writer would fence the follower that has taken over
            raise
        except BaseException:
            self.close()
            raise


def committed_records(log: LogSettings, topic: str) -> Iterator[Record]:
    """The committed records of a topic, those of one partition in order; none if there is no such topic.

    Of each key the newest record counts, as in compaction.
    """
    start, until = read_bounds(log, topic)
    with Reader(log) as reader:
        for partition, first in start[topic].items():
            yield from reader.read(topic, partition, first, until[topic][partition])
