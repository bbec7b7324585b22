"""A state in a topic is read on from look to look, by the same clients."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pytest

from cdc.core.errors import UnreachableError
from cdc.log.clients import topic_tail
from cdc.log.clients.reader import Record
from cdc.log.clients.topic_tail import TopicTail
from cdc.log.settings import LogSettings

TOPIC = "positions"


class MemoryReader:
    """The reader of a topic with one partition, None where there is none. `made`: readers; `read_count`: records."""

    values: ClassVar[list[bytes] | None] = None
    is_down: ClassVar[bool] = False
    made = read_count = 0

    def __init__(self, log: LogSettings, *, committed: bool = True) -> None:
        MemoryReader.made += 1

    def forget(self, topic: str) -> None:
        """It is asked for each time."""

    def close(self) -> None:
        """Nothing is open."""

    def beginning(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        return {topic: {} if self.values is None else {0: 0} for topic in topics}

    def end(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        return {topic: {} if self.values is None else {0: len(self.values)} for topic in topics}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        if self.is_down:
            raise UnreachableError("Kafka does not answer", "")
        for at in range(start, end):
            MemoryReader.read_count += 1
            yield Record(topic, partition, at, b"", (self.values or [])[at])


@pytest.fixture
def tail(monkeypatch: pytest.MonkeyPatch) -> TopicTail:
    for name, value in {"values": None, "is_down": False, "made": 0, "read_count": 0}.items():
        monkeypatch.setattr(MemoryReader, name, value)
    monkeypatch.setattr(topic_tail, "Reader", MemoryReader)
    return TopicTail(LogSettings(bootstrap="nowhere:9", prefix="p"), TOPIC)


def look(tail: TopicTail) -> tuple[bool, list[bytes | None]]:
    is_anew, found = tail.read()
    return is_anew, [record.value for record in found]


def test_each_record_comes_once_by_the_same_clients(tail: TopicTail, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [b"a", b"b"]
    monkeypatch.setattr(MemoryReader, "values", values)
    assert look(tail) == (True, [b"a", b"b"])
    for _ in range(50):
        assert look(tail) == (False, [])
    values.append(b"c")
    assert look(tail) == (False, [b"c"])
    assert (MemoryReader.made, MemoryReader.read_count) == (2, 3)


def test_topic_that_was_made_anew_is_read_anew(tail: TopicTail, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(tail) == (True, [])
    monkeypatch.setattr(MemoryReader, "values", [b"a", b"b"])
    assert look(tail) == (True, [b"a", b"b"])
    monkeypatch.setattr(MemoryReader, "values", [b"c"])
    assert look(tail) == (True, [b"c"])
    monkeypatch.setattr(MemoryReader, "values", None)
    assert look(tail) == (True, [])


def test_topic_that_is_made_while_one_looks_is_read(tail: TopicTail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryReader, "beginning", lambda _, topics: {topic: {} for topic in topics})
    monkeypatch.setattr(MemoryReader, "values", [b"a"])
    assert look(tail) == (True, [b"a"])


def test_topic_that_is_deleted_while_one_looks_has_no_records(tail: TopicTail, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there for the first two questions: where it begins, and what was written."""
    answers = iter([{0: 5}, {}])
    monkeypatch.setattr(MemoryReader, "beginning", lambda _, topics: {topic: {0: 0} for topic in topics})
    monkeypatch.setattr(MemoryReader, "end", lambda _, topics: {topic: next(answers) for topic in topics})
    assert look(tail) == (True, [])


def test_records_of_a_look_that_failed_come_with_the_next(tail: TopicTail, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [b"a"]
    monkeypatch.setattr(MemoryReader, "values", values)
    look(tail)
    values.append(b"b")
    monkeypatch.setattr(MemoryReader, "is_down", True)
    with pytest.raises(UnreachableError):
        tail.read()
    monkeypatch.setattr(MemoryReader, "is_down", False)
    assert look(tail) == (False, [b"b"])
