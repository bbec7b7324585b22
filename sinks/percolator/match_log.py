"""The follower's topics: reads what there is, and writes changes with the position in one transaction."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from cdc.log.clients.reader import Record
from cdc.log.clients.topics import Admin, Topic, ensure_topic
from cdc.log.clients.transactional_writer import TransactionalWriter
from cdc.log.settings import LogSettings
from cdc.sinks.owner import Owner
from cdc.sinks.percolator import records
from cdc.sinks.percolator.layout import Topics
from cdc.sinks.percolator.matches import Change, Matches
from cdc.sinks.percolator.records import Moment, Reached
from cdc.sinks.transactional_state import TopicState, TransactionalState, committed_records

FindChanges = Callable[[Matches], Iterator[Change]]
"""Finds what begins and ends by what there is, in the same order each time; it may be `put` meanwhile."""


@dataclass(frozen=True, slots=True)
class MatchState:
    """How far the follower is, and the matches that there are, which change in place."""

    reached: Reached = field(default_factory=Reached)
    matches: Matches = field(default_factory=Matches)


@dataclass(frozen=True, slots=True)
class MatchReader:
    """Reads how far the follower is, again and again, and for a writer also the matches that there are."""

    log: LogSettings
    topics: Topics
    reached: TopicState[Reached]

    @classmethod
    def of(cls, log: LogSettings, owner: Owner, topics: Topics) -> Self:
        topic = topics.position.name
        return cls(log, topics, TopicState(log, topic, Reached(), partial(_after, owner, topic)))

    def read(self) -> MatchState:
        return MatchState(self.reached.read(), Matches(self._read_changes()))

    def close(self) -> None:
        self.reached.close()

    def _read_changes(self) -> Iterator[Change]:
        """What led to the matches that there are: of each key, the newest record counts."""
        for record in committed_records(self.log, self.topics.present.name):
            yield Change(records.to_pair(record.key or b""), begins=record.value is not None)


def _after(owner: Owner, topic: str, reached: Reached, record: Record) -> Reached:
    if record.key != records.POSITION_KEY or record.value is None:
        return reached
    return records.to_reached(record.value, owner, topic)


class MatchLog:
    """Writes matches; opened by the first write, so that those who only read disturb nobody."""

    def __init__(self, log: LogSettings, owner: Owner, topics: Topics) -> None:
        self._log = log
        self._owner = owner
        self._topics = topics
        self._reader = MatchReader.of(log, owner, topics)
        self._states = TransactionalState(log, owner, MatchState(), self._reader, topics.position)

    @property
    def reached(self) -> Reached:
        """The writer's own, from `open` on."""
        return self._states.state.reached

    @property
    def matches(self) -> Matches:
        """The writer's own, from `open` on."""
        return self._states.state.matches

    def close(self) -> None:
        """Close the connections; the next write opens them again, and looks at the topics."""
        self._states.close()

    def prepare(self) -> None:
        """Create the topics that do not exist; a writer has looked before, and after a failure there is none."""
        if not self._states.has_writer:
            with Admin(self._log) as admin:
                _ensure_existing(admin, self._topics.events)
                made = ensure_topic(admin, self._topics.present)
                ensure_topic(admin, self._topics.position)
            if made and self.read_reached().current:
                # somebody has deleted it: what the position says of its matches is no longer so
                self.store(Reached(self.read_reached().position))

    def read_reached(self) -> Reached:
        """The position and the tables that are current: the writer's own, or read on from the topic."""
        return self.reached if self._states.has_writer else self._reader.reached.read()

    def open(self) -> None:
        """Fence an older writer and abort its open transaction; then read what there is."""
        if not self._states.has_writer:
            self.prepare()
            self._states.open()

    def commit(self, find_changes: FindChanges, reached: Reached, moment: Moment) -> None:
        """Write matches and ends of matches, and how far the follower is: consumers see all of it, or nothing."""
        self.open()
        with self._states.transaction() as writer:
            for change in find_changes(self.matches):
                for topic, record in self._records_of(change, moment):
                    writer.write(topic.name, record.key, record.value)
            self._write_reached(writer, reached)
        self._states.state = MatchState(reached, self.matches)
        try:
            # found once more: those of a table that is matched as a whole take more memory than the matches
            for change in find_changes(self.matches):
                self.matches.put(change)
        except BaseException:
            # only some are noted: the topics have all, and the next `open` reads them
            self._states.close()
            raise

    def store(self, reached: Reached) -> None:
        """Write how far the follower is, and no match."""
        self.open()
        with self._states.transaction() as writer:
            self._write_reached(writer, reached)
        self._states.state = MatchState(reached, self.matches)

    def _records_of(self, change: Change, moment: Moment) -> Iterable[tuple[Topic, records.NewRecord]]:
        yield self._topics.events, records.event(change, moment)
        yield self._topics.present, records.presence(change, moment)

    def _write_reached(self, writer: TransactionalWriter, reached: Reached) -> None:
        record = records.position_record(self._owner, reached)
        writer.write(self._topics.position.name, record.key, record.value)


def _ensure_existing(admin: Admin, topic: Topic) -> None:
    # the events may go to a topic of somebody's own, with as many partitions as they like
    if topic.name not in admin.topics([topic.name]):
        ensure_topic(admin, topic)
