"""Where the changes of a table begin: behind its copy, which may hold more than its topic had when it began."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, cast

import pytest

from cdc.core.errors import HistoryLostError, PreconditionError, UnreachableError
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Column, Kind, Table, TableName
from cdc.log.clients import reader
from cdc.log.clients.reader import Reader, Record
from cdc.log.transaction_topic import find_covered
from cdc.run.read.changes import Copy, find_start, skip_covered
from tests.unit.log.test_changes_behind import TOPIC, CountedReader

COMMITTED: Final[Mapping[int, int]] = MappingProxyType({})


class ChangeTopic(CountedReader):
    """A change topic with these ends of its partitions, none where there is no topic, beside 100 commits."""

    def __init__(self, ends: dict[int, int]) -> None:
        super().__init__(100)
        self.ends = ends

    def beginning(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: 0} if topic == TOPIC else dict.fromkeys(self.ends, 5) for topic in topics}

    def end(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: self.commits} if topic == TOPIC else self.ends for topic in topics}


def start_of(
    ends: dict[int, int], place: dict[int, int], open_from: Mapping[int, int] = COMMITTED
) -> Mapping[int, int]:
    """Where the changes behind a copy begin in a topic with these ends. `open_from`: where what is open begins."""
    bookmark = Bookmark(Lsn(50), 4711, 1, {"p.things": place}, 60)
    table = Table(TableName("public", "things"), (Column("id", Kind.INTEGER),), ("id",))
    copy = Copy(table, "id", bookmark, "p.things", place)
    written, committed = cast("Reader", ChangeTopic(ends)), cast("Reader", ChangeTopic({**ends, **open_from}))
    return find_start(committed, written, TOPIC, copy)


def test_changes_begin_at_the_place_and_an_added_partition_at_its_beginning() -> None:
    assert start_of({0: 10, 1: 20, 2: 30}, {0: 10, 1: 3}) == {0: 10, 1: 5, 2: 5}


def test_topic_that_is_gone_or_was_made_anew_is_told() -> None:
    with pytest.raises(PreconditionError, match=r"there is no topic p\.things → run `cdc bootstrap`"):
        start_of({}, {})
    with pytest.raises(
        HistoryLostError, match=r"p\.things ends at 9, before 10: it was made anew → copy public\.things"
    ):
        start_of({0: 9}, {0: 10})


def test_place_in_a_transaction_that_is_open_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "SETTLE_SECONDS", 0.0)
    assert start_of({0: 10, 1: 20}, {0: 10, 1: 15}, {1: 15}) == {0: 10, 1: 15}
    with pytest.raises(UnreachableError, match="a transaction of the capture is still open → try again"):
        start_of({0: 10, 1: 20}, {0: 10, 1: 20}, {1: 15})


def record(offset: int, transaction: int | None) -> Record:
    """A change of a transaction, or a tombstone."""
    source = {"lsn": 1, "ts_ms": 1, "txId": transaction}
    value = None if transaction is None else json.dumps({"source": source}).encode()
    return Record("p.things", 0, offset, b"{}", value)


def test_changes_begin_behind_the_last_one_that_the_copy_has() -> None:
    records = [record(40, 7), record(41, None), record(43, 8), record(44, 9), record(46, 7)]
    assert skip_covered(records, {7, 8}, 40) == 44
    assert skip_covered(records, {8}, 40) == 40
    assert skip_covered(records, {7, 8, 9}, 40) == 47
    assert skip_covered([], {7}, 40) == 40


def test_transactions_of_the_copy_are_those_between_its_place_and_its_lsn() -> None:
    topic = CountedReader(100)
    assert find_covered(cast("Reader", topic), TOPIC, 98, Lsn(1000)) == {7}
    assert find_covered(cast("Reader", topic), TOPIC, 50, Lsn(49)) == frozenset()
    # the first END above it ends the search
    assert topic.read_count == 2 + 1
    assert find_covered(cast("Reader", topic), TOPIC, 1000, Lsn(5000)) == frozenset()
