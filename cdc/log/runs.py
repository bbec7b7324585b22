"""What a run of transactions has in the change topics, read by the driver: as far as the ENDs' counts reach."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cdc.columns.batch import DecodedBatch, Ranks, TableChanges
from cdc.columns.changes import Decoded, Integers, Messages, RefusedMessage
from cdc.columns.decoding.decoder import Decoder
from cdc.columns.ends import Ends
from cdc.core.errors import HistoryLostError
from cdc.core.position import Offsets
from cdc.core.table import Table, TableName
from cdc.log.clients.standing_consumer import StandingConsumer
from cdc.log.names import change_topic

PATIENCE_SECONDS = 60.0
"""For how long an END may be visible before its changes are: commit markers reach the partitions one by one."""


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run's changes, and where reading goes on behind them."""

    batch: DecodedBatch
    next_offsets: Offsets


@dataclass(frozen=True, slots=True)
class _Part:
    """What of a run was found in one topic so far, and up to where in each partition."""

    changes: TableChanges
    distinct: int
    until: Mapping[int, int]


class RunReader:
    """Reads small runs for one follower; `placeholder` is the connector's for values that were not sent."""

    def __init__(
        self, consumer: StandingConsumer, prefix: str, placeholder: str, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._consumer = consumer
        self._prefix = prefix
        self._placeholder = placeholder
        self._patience = patience
        self._decoders: dict[TableName, tuple[Table, Decoder]] = {}

    def read(self, run: Ends, tables: Sequence[Table], start: Offsets) -> ReadRun:
        """Read what the run has of these tables.

        Waits while an END is visible before its changes. Raises HistoryLostError, naming the topic, when the log does
        not hold as many changes as the ENDs count.
        """
        counts = run.counts(str(table.name) for table in tables)
        touched = {self._topic(table): table for table in tables if str(table.name) in counts}
        for topic in touched:
            self._consumer.stand(topic, start.get(topic, {}))
        ranks, found = Ranks.of(run), dict[str, _Part]()
        looked, deadline = dict[str, int](), time.monotonic() + self._patience
        while True:
            for topic, table in touched.items():
                if topic not in found:
                    self._look(topic, table, counts[str(table.name)], ranks, found, looked)
            missing = [topic for topic in touched if topic not in found]
            if not missing:
                break
            self._wait(missing, touched, counts, looked, deadline)
        # only now that all topics are complete: after a failure, the same offsets are read again
        for topic, part in found.items():
            self._consumer.take(topic, part.until)
        self._consumer.done()
        batch = DecodedBatch(run, {touched[topic].name: part.changes for topic, part in found.items()})
        moved = {topic: self._consumer.starts(topic) for topic in found}
        return ReadRun(batch, {**start, **moved})

    def _look(
        self, topic: str, table: Table, count: int, ranks: Ranks, found: dict[str, _Part], looked: dict[str, int]
    ) -> None:
        """Decode what waits, unless it cannot be enough or is no more than at the last look."""
        waiting = self._consumer.waiting(topic)
        # tombstones do not wait, refused messages do: fewer than `count` cannot be enough
        if waiting < count or looked.get(topic) == waiting:
            return
        looked[topic] = waiting
        messages = self._consumer.messages(topic)
        part = part_of(messages, self._decoder(table).decode(messages), ranks)
        if part.distinct >= count:
            found[topic] = part

    def _wait(
        self,
        missing: Sequence[str],
        touched: Mapping[str, Table],
        counts: Mapping[str, int],
        looked: Mapping[str, int],
        deadline: float,
    ) -> None:
        if self._consumer.read_on(missing) or time.monotonic() < deadline:
            return
        self._consumer.check_alive()
        for topic in missing:
            # what is committed has been read, and it is short; a topic that is behind is only slow
            if not self._consumer.behind(topic):
                raise lost(topic, looked.get(topic, self._consumer.waiting(topic)), counts[str(touched[topic].name)])

    def _decoder(self, table: Table) -> Decoder:
        known = self._decoders.get(table.name)
        if known is None or known[0] != table:
            known = self._decoders[table.name] = (table, Decoder(table, self._placeholder))
        return known[1]

    def _topic(self, table: Table) -> str:
        return change_topic(self._prefix, table.name)


def lost(topic: str, found: int, count: int) -> HistoryLostError:
    return HistoryLostError(
        f"{topic} holds {found} of {count} changes that its transactions count",
        "its retention is over, or it was written by another hand: bootstrap again",
    )


def part_of(messages: Messages, decoded: Decoded, ranks: Ranks) -> _Part:
    """The changes and refusals among a topic's messages that belong to a run."""
    places = ranks.places(decoded.changes.tx_id)
    own = np.flatnonzero(places >= 0)
    at = decoded.at[own]
    # a partition is in commit order: whatever lies before the run's last message in it is of the run, or older
    until = _behind(messages.partition[at], messages.offset[at])
    changes = decoded.changes if len(own) == len(decoded.changes) else decoded.changes.take(own)
    distinct = changes.distinct()
    refused = [each for each in decoded.refused if _is_of(each, ranks)]
    for each in refused:
        place = each.refusal
        until[place.partition] = max(until.get(place.partition, 0), place.offset + 1)
    # the ENDs count these as well: to Postgres they were changes
    distinct += len({(each.tx_id, each.total_order) for each in refused})
    # what says no transaction was not written by the capture, and is counted by no END: it belongs where it lies
    foreign = [each for each in decoded.refused if each.tx_id is None and _is_before(each, until)]
    return _Part(TableChanges(changes, places[own], [*refused, *foreign], messages, at), distinct, until)


def _is_of(refused: RefusedMessage, ranks: Ranks) -> bool:
    return refused.tx_id is not None and bool(ranks.places(np.array([refused.tx_id]))[0] >= 0)


def _is_before(refused: RefusedMessage, until: Mapping[int, int]) -> bool:
    return refused.refusal.offset < until.get(refused.refusal.partition, 0)


def _behind(partitions: Integers, offsets: Integers) -> dict[int, int]:
    return {int(p): int(offsets[partitions == p].max()) + 1 for p in np.unique(partitions)}
