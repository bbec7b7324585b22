"""Finds where an open transaction keeps readers of committed records from going on."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cdc.log.clients.reader import Reader
from cdc.log.settings import LogSettings


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The first open transaction of a partition: the offset where it begins, and for how long that is written."""

    topic: str
    partition: int
    offset: int
    seconds: float


def find_open_transactions(log: LogSettings, topics: Sequence[str]) -> Iterator[OpenTransaction]:
    """The partitions of these topics of which some records are not committed yet. Raises CdcError.

    The last stable offset (KIP-98) is where the first open transaction begins: so no right on the cluster is asked for,
    and brokers of all versions tell it. `kafka-transactions.sh` takes the same three to abort it (KIP-664).
    """
    with Reader(log) as committed, Reader(log, committed=False) as whole:
        there = [topic for topic, partitions in whole.beginning(topics).items() if partitions]
        stable, ends = committed.end(there), whole.end(there)
        for topic in there:
            for partition, end in ends[topic].items():
                if (at := stable[topic][partition]) < end:
                    for record in whole.read(topic, partition, at, end):
                        yield OpenTransaction(topic, partition, at, time.time() - record.written_ms / 1000)
                        break
