"""The follower's topics: reads what there is, and writes changes with the position in one transaction."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from cdc.core.errors import PreconditionError, RefusedError
from cdc.log.clients.reader import Reader, Record, read_bounds
from cdc.log.clients.topic_tail import TopicTail
from cdc.log.clients.topics import Admin, Topic, ensure_topic
from cdc.log.clients.transactional_writer import TransactionalWriter
from cdc.log.settings import LogSettings
from cdc.sinks.owner import Owner
from cdc.sinks.percolator import records
from cdc.sinks.percolator.layout import Topics
from cdc.sinks.percolator.matches import Change, Matches
from cdc.sinks.percolator.records import Moment, Reached


class MatchLog:
    """Writes matches; opened by the first write, so that those who only read disturb nobody.

    From `open` on, `reached` and `matches` are what the topics have, since nobody else can write: a later writer fences
    this one (KIP-98).
    """

    def __init__(self, log: LogSettings, owner: Owner, topics: Topics) -> None:
        self._log = log
        self._owner = owner
        self._topics = topics
        self._writer: TransactionalWriter | None = None
        self._has_topics = False
        self._position = TopicTail(log, topics.position.name)
        self._known = Reached()
        self.reached = Reached()
        self.matches = Matches()

    def close(self) -> None:
        """Close the connections; the next write opens them again, and looks at the topics."""
        self._position.close()
        writer, self._writer, self._has_topics = self._writer, None, False
        if writer:
            writer.close()

    def prepare(self) -> None:
        """Create the topics that do not exist."""
        if not self._has_topics:
            with Admin(self._log) as admin:
                _ensure_existing(admin, self._topics.events)
                made = ensure_topic(admin, self._topics.present)
                ensure_topic(admin, self._topics.position)
            self._has_topics = True
            if made and self.read_reached().current:
                # somebody has deleted it: what the position says of its matches is no longer so
                self.store(Reached(self.read_reached().position))

    def read_reached(self) -> Reached:
        """The position and the tables that are current: the writer's own, or read on from the topic."""
        return self.reached if self._writer else self._read_reached()

    def open(self) -> None:
        """Fence an older writer and abort its open transaction; then read what there is."""
        if self._writer is None:
            self.prepare()
            self._open()

    def _open(self) -> None:
        self._writer = TransactionalWriter(self._log, f"cdc-{self._owner.pipeline}-{self._owner.follower}")
        try:
            # after fencing: an older writer can change neither any more
            self.reached = self._read_reached()
            self.matches = Matches(records.to_pair(key) for key in self._read_present())
            # from here on both are known
            self._position.close()
        except BaseException:
            self.close()
            raise

    def commit(self, changes: Sequence[Change], reached: Reached, moment: Moment) -> None:
        """Write matches and ends of matches, and how far the follower is: consumers see all of it, or nothing."""
        with self._transaction() as writer:
            for change in changes:
                for topic, record in self._records_of(change, moment):
                    writer.write(topic.name, record.key, record.value)
            self._write_reached(writer, reached)
        # after the commit: a failed transaction changes nothing
        self.reached = reached
        for change in changes:
            self.matches.put(change)

    def store(self, reached: Reached) -> None:
        """Write how far the follower is, and no match."""
        with self._transaction() as writer:
            self._write_reached(writer, reached)
        self.reached = reached

    def _records_of(self, change: Change, moment: Moment) -> Iterable[tuple[Topic, records.NewRecord]]:
        yield self._topics.events, records.event(change, moment)
        yield self._topics.present, records.presence(change, moment)

    def _write_reached(self, writer: TransactionalWriter, reached: Reached) -> None:
        record = records.position_record(self._owner, reached)
        writer.write(self._topics.position.name, record.key, record.value)

    @contextmanager
    def _transaction(self) -> Iterator[TransactionalWriter]:
        """Open one transaction. A fenced writer stays fenced; after other failures the next call opens a new one."""
        self.open()
        assert self._writer is not None
        try:
            with self._writer.transaction():
                yield self._writer
        except RefusedError:
            # stays open: a new writer would fence the follower that has taken over
            raise
        except BaseException:
            self.close()
            raise

    def _read_reached(self) -> Reached:
        is_anew, found = self._position.read()
        own = [record.value for record in found if record.key == records.POSITION_KEY and record.value is not None]
        known, self._known = Reached() if is_anew else self._known, Reached()
        try:
            # each of them: one may be another follower's
            read = [records.to_reached(value, self._owner, self._topics.position.name) for value in own]
        except PreconditionError:
            self._position.close()
            raise
        self._known = read[-1] if read else known
        return self._known

    def _read_present(self) -> Iterable[bytes]:
        """The keys of the matches that there are: of each key, the newest record counts."""
        there = set[bytes]()
        for record in self._committed(self._topics.present.name):
            (there.discard if record.value is None else there.add)(record.key or b"")
        return there

    def _committed(self, topic: str) -> Iterator[Record]:
        start, until = read_bounds(self._log, topic)
        with Reader(self._log) as reader:
            for partition, first in start[topic].items():
                yield from reader.read(topic, partition, first, until[topic][partition])


def _ensure_existing(admin: Admin, topic: Topic) -> None:
    # the events may go to a topic of somebody's own, with as many partitions as they like
    if topic.name not in admin.topics([topic.name]):
        ensure_topic(admin, topic)
