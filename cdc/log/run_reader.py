"""Reads a small run of transactions from the change topics: the driver reads until all counted changes are there."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from cdc.columns.arrays import Integers
from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.batch import DecodedBatch, Ranks, TableChanges
from cdc.columns.netting.changes import Decoded, Messages, RefusedMessage
from cdc.columns.netting.ends import Ends
from cdc.core.errors import RECAPTURE, TopicLostError
from cdc.core.position import BEFORE_LOG, Offsets
from cdc.core.table import Table, TableName
from cdc.core.text.plural import format_count
from cdc.core.waiting import Deadline
from cdc.log.clients.standing_consumer import StandingConsumer
from cdc.log.names import change_topic

PATIENCE_SECONDS = 60.0
"""How long an END may be visible before its changes: commit markers reach the partitions one by one."""
NOTHING_APPLIED: Final[Mapping[TableName, int]] = MappingProxyType({})
CHECK_SECONDS: Final = 1.0
"""After that, how often to check whether anything is left to read."""
DISCOVERY_SECONDS: Final = 2.0
"""How often to look for added partitions of a topic that lacks changes."""


class RunTooLargeError(Exception):
    """The messages of a run are too many bytes for this process."""


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run's changes, and the next offsets to read."""

    batch: DecodedBatch
    next_offsets: Offsets


@dataclass(frozen=True, slots=True)
class _TopicPart:
    """The changes of a run found in one topic so far, and the offset behind the last of them in each partition."""

    changes: TableChanges
    distinct: int
    until: Mapping[int, int]


@dataclass(slots=True)
class _TopicSearch:
    """The search for a run's `count` changes, of the transactions in `ranks`, in one topic.

    `part`: the result of the last look, when `looked` messages were waiting.
    """

    topic: str
    table: Table
    count: int
    ranks: Ranks
    looked: int = 0
    next_look: float = 0.0
    part: _TopicPart | None = None

    @property
    def is_whole(self) -> bool:
        return self.part is not None and self.part.distinct >= self.count

    def has_news(self, waiting: int) -> bool:
        """Could all changes be there? At least `count` messages must wait (tombstones do not, refused messages do)."""
        return waiting >= self.count and waiting > self.looked


class RunReader:
    """Reads small runs for one follower; `placeholder` is the connector's for unsent values.

    `patience`: seconds, PATIENCE_SECONDS if it is None.
    """

    def __init__(
        self, consumer: StandingConsumer, prefix: str, placeholder: str, patience: float | None = None
    ) -> None:
        self._consumer = consumer
        self._prefix = prefix
        self._placeholder = placeholder
        self._patience = PATIENCE_SECONDS if patience is None else patience
        self._decoders: dict[TableName, tuple[Table, Decoder]] = {}

    def read(
        self,
        run: Ends,
        tables: Sequence[Table],
        start: Offsets,
        applied: Mapping[TableName, int] = NOTHING_APPLIED,
        most_bytes: int = sys.maxsize,
    ) -> ReadRun:
        """Read the run's changes of these tables, without those up to the END offset in `applied`.

        Waits while an END is visible before its changes. Raises TopicLostError when the log has fewer changes than the
        ENDs count, or no such topic; RunTooLargeError when more bytes than `most_bytes` wait, and changes still lack.
        """
        sought = [*self._find_searches(run, tables, applied)]
        for each in sought:
            self._consumer.seek(each.topic, start.get(each.topic, {}))
        deadline, discovery = Deadline(self._patience), Deadline(DISCOVERY_SECONDS)
        while missing := self._missing(sought):
            if sum(self._consumer.size(each.topic) for each in sought) > most_bytes:
                # or they would count as those of a shorter run, too
                for each in sought:
                    self.forget(each.topic)
                raise RunTooLargeError
            self._consumer.read_on([each.topic for each in missing])
            if discovery.is_past:
                for each in missing:
                    self._consumer.discover(each.topic)
                discovery = Deadline(DISCOVERY_SECONDS)
            if deadline.is_past:
                self._check(missing)
                deadline = Deadline(CHECK_SECONDS)
        # only when all topics are complete: after a failure, the same offsets are read again
        found = {each.table.name: self._take(each) for each in sought}
        self._consumer.release()
        moved = {each.topic: self._consumer.starts(each.topic) for each in sought}
        return ReadRun(DecodedBatch(run, found), {**start, **moved})

    def forget(self, topic: str) -> None:
        """Drop what was read of a topic, and read no more of it: the next read of it starts anew."""
        self._consumer.forget(topic)

    def _find_searches(
        self, run: Ends, tables: Sequence[Table], applied: Mapping[TableName, int]
    ) -> Iterator[_TopicSearch]:
        """Find the topics with changes of the run that these tables have not applied."""
        whole = Ranks.of(run)
        for table in tables:
            after, name = applied.get(table.name, BEFORE_LOG), str(table.name)
            # retention may have deleted changes that are in the copy already: do not wait for them
            is_whole = after < run.offset[0]
            own = run if is_whole else run.where(run.offset > after)
            if count := own.counts([name]).get(name):
                yield _TopicSearch(
                    change_topic(self._prefix, table.name), table, count, whole if is_whole else Ranks.of(own)
                )

    def _missing(self, sought: Sequence[_TopicSearch]) -> list[_TopicSearch]:
        """Look at new messages; returns the searches that are not complete."""
        for each in sought:
            due = time.monotonic() >= each.next_look
            if not each.is_whole and due and each.has_news(self._consumer.waiting(each.topic)):
                self._look(each)
        return [each for each in sought if not each.is_whole]

    def _look(self, sought: _TopicSearch) -> None:
        """Decode all waiting messages: changes of later transactions may have been read before these."""
        began, messages = time.monotonic(), self._consumer.messages(sought.topic)
        sought.looked = self._consumer.waiting(sought.topic)
        sought.part = part_of(messages, self._decoder(sought.table).decode(messages), sought.ranks)
        # at most half of the time goes into looks: one look for each arrival would be quadratic
        sought.next_look = time.monotonic() + (time.monotonic() - began)

    def _check(self, missing: Sequence[_TopicSearch]) -> None:
        """Raise for a topic of which all committed messages have been read, with too few changes."""
        self._consumer.check_alive()
        for each in missing:
            waiting = self._consumer.waiting(each.topic)
            # in this order: a message committed after the look is new
            if not each.has_news(waiting) and not self._consumer.behind(each.topic):
                raise lost_changes_error(each.topic, each.part.distinct if each.part else waiting, each.count)

    def _take(self, sought: _TopicSearch) -> TableChanges:
        assert sought.part is not None
        _check_counted(sought)
        self._consumer.advance(sought.topic, sought.part.until)
        return sought.part.changes

    def _decoder(self, table: Table) -> Decoder:
        known = self._decoders.get(table.name)
        # the stream may have added columns to the table since
        if known is None or known[0] != table:
            known = self._decoders[table.name] = (table, Decoder(table, self._placeholder))
        return known[1]


def lost_changes_error(topic: str, found: int, count: int) -> TopicLostError:
    """Make the error for a topic with fewer changes than the ENDs count: retention or somebody else deleted them."""
    return TopicLostError(topic, f"{topic} holds {found} of {count} changes that its transactions count", RECAPTURE)


def _check_counted(sought: _TopicSearch) -> None:
    """Raise TopicLostError for other changes than Postgres made: those of two captures, or halves of updated keys."""
    assert sought.part is not None
    changes = sought.part.changes.changes
    if sought.part.distinct > sought.count:
        raise lost_changes_error(sought.topic, sought.part.distinct, sought.count)
    # a refused message may be the other half, or the other change
    if sought.part.changes.refused:
        return
    # usually nothing came twice, and nothing is sorted once more
    if sought.part.distinct < len(changes) and changes.has_conflicts():
        raise TopicLostError(sought.topic, f"{sought.topic} holds two changes under one number", RECAPTURE)
    if sought.table.key and (unpaired := changes.unpaired()):
        raise half_updates_error(sought.topic, unpaired)


def half_updates_error(topic: str, unpaired: int) -> TopicLostError:
    """Make the error for a topic that lacks the create, or the delete, of an updated key (`Changes.unpaired`)."""
    lacks = f"{format_count(abs(unpaired), 'create' if unpaired > 0 else 'delete')} of updated keys"
    return TopicLostError(topic, f"{topic} lacks {lacks}: Kafka Connect was killed before it sent them", RECAPTURE)


def part_of(messages: Messages, decoded: Decoded, ranks: Ranks) -> _TopicPart:
    """The changes and refusals among a topic's messages that belong to a run."""
    places = ranks.places(decoded.changes.tx_id)
    own = np.flatnonzero(places >= 0)
    at = decoded.at[own]
    # a partition is in commit order: whatever lies before the run's last message in it is of the run, or older
    until = _behind(messages.partition[at], messages.offset[at])
    changes = decoded.changes if len(own) == len(decoded.changes) else decoded.changes.take(own)
    # a redelivered change must not stand in for one that is still to come
    distinct = changes.distinct()
    refused = [each for each in decoded.refused if _is_of(each, ranks)]
    for each in refused:
        place = each.refusal
        until[place.partition] = max(until.get(place.partition, 0), place.offset + 1)
    if refused:
        # the ENDs count these as well: to Postgres they were changes; one that came again may be refused once only
        readable = set(zip(changes.tx_id.tolist(), changes.number.tolist(), strict=True))
        distinct += len({(each.tx_id, each.number) for each in refused} - readable)
    # a message without a transaction is not of the capture, and no END counts it: it stays where it is in the order
    foreign = [each for each in decoded.refused if each.tx_id is None and _is_before(each, until)]
    return _TopicPart(TableChanges(changes, places[own], [*refused, *foreign], messages, at), distinct, until)


def _is_of(refused: RefusedMessage, ranks: Ranks) -> bool:
    return refused.tx_id is not None and bool(ranks.places(np.array([refused.tx_id]))[0] >= 0)


def _is_before(refused: RefusedMessage, until: Mapping[int, int]) -> bool:
    return refused.refusal.offset < until.get(refused.refusal.partition, 0)


def _behind(partitions: Integers, offsets: Integers) -> dict[int, int]:
    return {int(p): int(offsets[partitions == p].max()) + 1 for p in np.unique(partitions)}
