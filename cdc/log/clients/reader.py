"""Single reads of a topic: its bounds, and the records between two offsets."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Message

from cdc.columns.netting.changes import Messages
from cdc.core.errors import UnreachableError
from cdc.core.position import Offsets
from cdc.core.waiting import Deadline
from cdc.log.clients.connection import STALL_SECONDS
from cdc.log.clients.message_columns import to_messages
from cdc.log.clients.partitions import LogPartition, Partitions
from cdc.log.settings import LogSettings

POLL_SECONDS, POLL_RECORDS = 1.0, 5_000
PEEK_BYTES, PEEK_RECORDS = 64 * 1024, 500
"""What `peek` asks for at once: some hundred events of transactions. Else a look for one fetches up to 32 MiB."""
EMPTY_MS = 10
"""How long a broker waits with an empty answer: what is read is there, and only such an answer tells of its end."""
SETTLE_SECONDS, SETTLE_POLL_SECONDS = 10.0, 0.02
"""How long to wait for a commit's markers in every partition; after that the transaction counts as open."""


@dataclass(frozen=True, slots=True)
class Record:
    """One message with its offset; a null value is a tombstone. `written_ms`: since 1970, by the producer's clock."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    written_ms: int = 0


class Reader:
    """Reads records of given partitions, only `committed` ones by default; commits no offsets."""

    def __init__(self, log: LogSettings, *, committed: bool = True) -> None:
        self._log = log
        self._committed = committed
        self._partitions = Partitions(log, committed=committed, empty_ms=EMPTY_MS)
        self._stretches = _Stretches(self._partitions, POLL_RECORDS)
        self._peeks: _Stretches | None = None

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for each in (self._stretches, self._peeks):
            if each:
                each.close()

    def forget(self, topic: str) -> None:
        """Ask for the topic's partitions again on next use."""
        self._partitions.forget(topic)

    def beginning(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """Read the first remaining offsets: topic → partition → offset."""
        return _by_topic(topics, self._partitions.first(self._places(topics)))

    def end(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """Read the offsets behind the last record that this reader may see: topic → partition → offset.

        For committed records that is the first open transaction (last stable offset, KIP-98).
        """
        return _by_topic(topics, self._partitions.ends(self._places(topics)))

    def _places(self, topics: Sequence[str]) -> list[LogPartition]:
        return [place for topic in topics for place in self._partitions.of(topic)]

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        """Read records with start ≤ offset < end, in order; offsets have gaps (transaction markers, compaction).

        Raises UnreachableError when nothing arrives for STALL_SECONDS.
        """
        return _to_records(topic, partition, self._stretches.read(LogPartition(topic, partition), start, end))

    def peek(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        """Read the same in small fetches, for who stops at one of the first. Raises like `read`."""
        if self._peeks is None:
            partitions = Partitions(self._log, committed=self._committed, empty_ms=EMPTY_MS, ahead_bytes=PEEK_BYTES)
            self._peeks = _Stretches(partitions, PEEK_RECORDS)
        return _to_records(topic, partition, self._peeks.read(LogPartition(topic, partition), start, end))

    def read_pairs(self, topic: str, partition: int, start: int, end: int) -> Iterator[tuple[bytes, bytes | None]]:
        """Read the keys and values of the same records, for less. Raises like `read`."""
        for found in self._stretches.read(LogPartition(topic, partition), start, end):
            yield from ((message.key() or b"", message.value()) for message in found)

    def read_columns(
        self, topic: str, partition: int, start: int, end: int
    ) -> Iterator[tuple[list[bytes], list[bytes | None]]]:
        """Read the same in pieces: all keys of one, and all values. Raises like `read`."""
        for found in self._stretches.read(LogPartition(topic, partition), start, end):
            yield [message.key() or b"" for message in found], [message.value() for message in found]

    def read_offsets(
        self, topic: str, partition: int, start: int, end: int
    ) -> Iterator[tuple[list[int], list[bytes | None], list[int]]]:
        """Read the same in pieces: the offsets of one, the values, and when each was written. Raises like `read`."""
        for found in self._stretches.read(LogPartition(topic, partition), start, end):
            offsets, written_ms = [each.offset() or 0 for each in found], [each.timestamp()[1] for each in found]
            yield offsets, [each.value() for each in found], written_ms

    def read_messages(self, topic: str, partition: int, start: int, end: int) -> Iterator[Messages]:
        """Read the same as columns in pieces, without tombstones. Raises like `read`."""
        for found in self._stretches.read(LogPartition(topic, partition), start, end):
            yield to_messages(topic, [message for message in found if message.value() is not None])


class _Stretches:
    """Reads one stretch of a partition after the other: a new one ends one that was left unfinished."""

    def __init__(self, partitions: Partitions, at_once: int) -> None:
        self._partitions = partitions
        self._at_once = at_once
        self._newest = 0

    def close(self) -> None:
        self._newest += 1
        self._partitions.close()

    def read(self, place: LogPartition, start: int, end: int) -> Iterator[list[Message]]:
        """The messages with start ≤ offset < end, in pieces of up to `at_once`."""
        if start >= end:
            return
        self._newest += 1
        own = self._newest
        self._partitions.consumer.assign([place.at(start)])
        try:
            yield from self._poll(place, start, end)
        finally:
            # else the consumer would ask for more for as long as it is open
            if self._newest == own:
                self._partitions.consumer.unassign()

    def _poll(self, place: LogPartition, start: int, end: int) -> Iterator[list[Message]]:
        reached, moved = start, time.monotonic()
        while reached < end:
            found = self._partitions.poll(POLL_SECONDS, self._at_once)
            # the reported end counts, too: markers of transactions come as no message (KIP-98)
            if found.messages or found.ended:
                behind = (found.messages[-1].offset() or 0) + 1 if found.messages else start
                reached, moved = max(behind, found.ended.get(place, start)), time.monotonic()
            elif time.monotonic() - moved > STALL_SECONDS:
                raise UnreachableError(f"{place.topic} stands still at {reached} of {end}", "is every broker running?")
            if reached >= end:
                # before the last piece is used, which may take long
                self._partitions.consumer.unassign()
            # the consumer fetches ahead, beyond `end`
            yield [each for each in found.messages if (each.offset() or 0) < end] if reached > end else found.messages


def _to_records(topic: str, partition: int, pieces: Iterator[list[Message]]) -> Iterator[Record]:
    for found in pieces:
        for message in found:
            offset, (_, written_ms) = message.offset() or 0, message.timestamp()
            yield Record(topic, partition, offset, message.key(), message.value(), written_ms)


def read_span(reader: Reader, topic: str) -> tuple[int, int]:
    """Read the first remaining offset of a topic of one partition, and the one behind its last; 0 without a topic."""
    return reader.beginning([topic])[topic].get(0, 0), reader.end([topic])[topic].get(0, 0)


def read_bounds(log: LogSettings, topic: str) -> tuple[Offsets, Offsets]:
    """Read the first offsets and the ends of a topic's committed records; waits for commits under way."""
    with Reader(log) as reader, Reader(log, committed=False) as beyond:
        return read_settled_bounds(reader, beyond, topic)


def read_settled_bounds(reader: Reader, beyond: Reader, topic: str) -> tuple[Offsets, Offsets]:
    """The same by a reader of committed records and one of all."""
    start, written = reader.beginning([topic]), beyond.end([topic])
    # a commit is answered before its markers are in every partition, and only these make its records readable
    deadline = Deadline(SETTLE_SECONDS)
    while _behind(until := reader.end([topic]), written, topic) and not deadline.is_past:
        time.sleep(SETTLE_POLL_SECONDS)
    # a topic that was deleted, or made, between the two answers: a partition that came now begins at 0
    return {topic: {at: start[topic].get(at, 0) for at in until[topic]}}, until


@dataclass(frozen=True, slots=True)
class WrittenEnds:
    """The ends of a log: `order` of its transaction topic, `changes` of change topics."""

    order: int
    changes: Offsets


def read_written_ends(log: LogSettings, order: str, changes: Sequence[str]) -> WrittenEnds:
    """Read the ends of the transaction topic `order` and of change topics: a message that is written later is behind.

    The END of such a message is at or behind `order`, and behind no end is a message that was there before.
    """
    with Reader(log) as reader, Reader(log, committed=False) as beyond:
        # in this order, and this one of committed records: their changes are all written
        committed = reader.end([order])[order].get(0, 0)
        # uncommitted ones included: what a task has written was committed in the source before
        return WrittenEnds(committed, beyond.end(changes))


def _behind(until: Offsets, written: Offsets, topic: str) -> bool:
    return any(until[topic].get(partition, end) < end for partition, end in written[topic].items())


def _by_topic(topics: Sequence[str], offsets: Mapping[LogPartition, int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    for place, offset in offsets.items():
        found[place.topic][place.partition] = offset
    return found
