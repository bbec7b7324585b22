"""The state of a follower in Kafka: read on from its topics, and changed in transactions of one writer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Generic, Protocol, TypeVar

from cdc.log.clients.reader import Reader, Record, read_bounds
from cdc.log.clients.topic_tail import TopicTail
from cdc.log.clients.topics import Topic
from cdc.log.clients.transactional_writer import TransactionalWriter, WriterFencedError
from cdc.log.settings import LogSettings
from cdc.sinks.owner import Owner
from cdc.sinks.writer_claims import CLAIM_KEY, Claims

State = TypeVar("State")
State_co = TypeVar("State_co", covariant=True)


class StateReader(Protocol[State_co]):
    """Reads a state from topics."""

    def read(self) -> State_co: ...

    def close(self) -> None:
        """Close the connections; the next reading opens them again."""


class TopicState(Generic[State]):
    """The state that the records of a small topic make, read on from look to look by clients that stay.

    `after` returns the state with one more record, those of one partition in order: the newest of each key counts, as
    in compaction. It may raise, and the next look then begins anew.
    """

    def __init__(self, log: LogSettings, topic: str, empty: State, after: Callable[[State, Record], State]) -> None:
        self._tail = TopicTail(log, topic)
        self._empty = self._state = empty
        self._after = after
        self._looking = Lock()

    def close(self) -> None:
        with self._looking:
            self._tail.close()

    def read(self) -> State:
        """The state as it is now; an empty one if there is no such topic."""
        with self._looking:
            is_anew, found = self._tail.read()
            records = [record for record in found if record.key != CLAIM_KEY]
            state = self._empty if is_anew else self._state
            try:
                for record in records:
                    state = self._after(state, record)
            except BaseException:
                # else the next look would go on behind the record
                self._tail.close()
                raise
            self._state = state
            return state


class TransactionalState(Generic[State]):
    """The state that `reader` finds in the topics, and the one writer of them.

    The writer is opened by `open` or the first transaction, so that those who only read disturb nobody. From then on
    `state` is what the topics have, since nobody else can write: a later writer fences this one (KIP-98). Whoever
    writes records sets `state` anew, after the commit: a failed transaction changes nothing.

    Of two who write, the one that began later goes on: its claim in `topic` is the last (`writer_claims.py`).
    """

    def __init__(self, log: LogSettings, owner: Owner, empty: State, reader: StateReader[State], topic: Topic) -> None:
        self._log = log
        # an id that the owner fixes: a later writer fences this one
        self._id = f"cdc-{owner.pipeline}-{owner.follower}"
        self._claims = Claims(log, owner, topic, self._id)
        self._reader = reader
        self._writer: TransactionalWriter | None = None
        self.state = empty

    @property
    def has_writer(self) -> bool:
        return self._writer is not None

    def close(self) -> None:
        """Close the connections; the next reading opens them again, and the next transaction takes over anew."""
        self._claims.release()
        self._close()

    def _close(self) -> None:
        self._reader.close()
        writer, self._writer = self._writer, None
        if writer:
            writer.close()

    def read(self) -> State:
        """The state: the writer's own, or read on from the topics."""
        return self.state if self._writer else self._reader.read()

    def open(self) -> TransactionalWriter:
        """Open the writer, which fences an older one and aborts its open transaction; then read the state.

        Raises RefusedError, and fences nobody, when somebody else has taken over since the last `close`.
        """
        if self._writer is None:
            self._claims.hold()
            with self._closed_on_failure():
                self._writer = TransactionalWriter(self._log, self._id)
                # after fencing: an older writer can change the state no more
                self.state = self._reader.read()
                # from here on it is known
                self._reader.close()
        assert self._writer
        return self._writer

    @contextmanager
    def transaction(self) -> Iterator[TransactionalWriter]:
        """Open one transaction; after a failure, the next call opens a new writer.

        Raises RefusedError when somebody else has taken over, and UnreachableError when the writer is fenced though
        nobody has.
        """
        writer = self.open()
        with self._closed_on_failure(), writer.transaction():
            yield writer

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except WriterFencedError as fenced:
            self._close()
            raise self._claims.explain_fence() from fenced
        except BaseException:
            self._close()
            raise


def committed_records(log: LogSettings, topic: str) -> Iterator[Record]:
    """The committed records of a topic, those of one partition in order; none if there is no such topic.

    Of each key the newest record counts, as in compaction.
    """
    start, until = read_bounds(log, topic)
    with Reader(log) as reader:
        for partition, first in start[topic].items():
            yield from reader.read(topic, partition, first, until[topic][partition])
