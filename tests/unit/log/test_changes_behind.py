"""What a follower lacks is counted by ENDs that are read once, however often is looked."""

import json
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from cdc.core.position import BEFORE_LOG, FIRST_LOG, LogStart, Lsn, Position
from cdc.log import changes_behind
from cdc.log.changes_behind import ChangesBehind, Lacking
from cdc.log.clients.reader import Reader, Record

TOPIC, OWN = "p.transaction", "public.things"


class InPieces:
    """Of a topic in memory that is read record by record."""

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        raise NotImplementedError

    def read_offsets(
        self, topic: str, partition: int, start: int, end: int
    ) -> Iterator[tuple[list[int], list[bytes | None], list[int]]]:
        found = [*self.read(topic, partition, start, end)]
        yield [each.offset for each in found], [each.value for each in found], [each.written_ms for each in found]


class CountedReader(InPieces):
    """A transaction topic with an END at each offset, whose commit is at that LSN; `read_count`: messages read."""

    def __init__(self, commits: int) -> None:
        self.commits = commits
        self.read_count = 0

    def beginning(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: 0} for topic in topics}

    def end(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: self.commits} for topic in topics}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        for at in range(start, end):
            self.read_count += 1
            # every third commit is of another table
            table = OWN if at % 3 else "public.other"
            counts = [{"data_collection": table, "event_count": 2}]
            event = {"status": "END", "id": f"7:{at}", "event_count": 2, "data_collections": counts, "ts_ms": 5}
            yield Record(topic, partition, at, None, json.dumps(event).encode())

    peek = read


def position(at: int, start: LogStart = FIRST_LOG) -> Position:
    return Position(at, Lsn(at), 7, log_start=start)


def behind(reader: CountedReader, lsn: int) -> ChangesBehind:
    return ChangesBehind(cast("Reader", reader), TOPIC, {OWN}, Lsn(lsn))


def test_follower_that_catches_up_costs_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_behind, "MESSAGES_AT_A_TIME", 7)
    reader = CountedReader(100)
    counted = behind(reader, 1000)
    for at in range(-1, 100):
        expected = sum(2 for n in range(at + 1, 100) if n % 3)
        assert counted.count(position(at)) == Lacking(expected, is_whole=False)
    assert reader.read_count == 100
    reader.commits = 110
    assert counted.count(position(99)).changes == sum(2 for n in range(100, 110) if n % 3)
    assert reader.read_count == 110


def test_nothing_above_the_lsn_counts_or_is_read_twice() -> None:
    reader = CountedReader(100)
    counted = behind(reader, 50)
    assert counted.count(position(40)) == Lacking(2 * len([n for n in range(41, 51) if n % 3]), is_whole=True)
    assert counted.count(position(50)) == Lacking(0, is_whole=True)
    reader.commits = 1000
    assert counted.count(position(50)).is_whole
    assert reader.read_count == 59


def test_follower_that_was_set_back_is_counted_anew() -> None:
    reader = CountedReader(20)
    counted = behind(reader, 1000)
    assert counted.count(position(18)).changes == 2
    assert counted.count(position(BEFORE_LOG)).changes == sum(2 for n in range(20) if n % 3)
    assert counted.count(position(108, LogStart(0, 100, 2))).changes == sum(2 for n in range(9, 20) if n % 3)
