"""A reader asks a broker for what it is to read, and for no more once it has that."""

from typing import Any, ClassVar

import pytest

from cdc.log.clients import reader
from cdc.log.clients.partitions import LogPartition, PollResult
from cdc.log.clients.reader import EMPTY_MS, PEEK_BYTES, Reader
from cdc.log.settings import LogSettings

PLACE = LogPartition("changes", 0)


class MemoryMessage:
    """A message of which only the offset counts."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return b"value"

    def timestamp(self) -> tuple[int, int]:
        return 1, 0


class MemoryPartitions:
    """Partitions whose polls give these results, one after the other. `assigned`: what its consumer asks for."""

    results: ClassVar[list[PollResult]] = []

    def __init__(self, log: LogSettings, *, committed: bool, empty_ms: int, ahead_bytes: int | None = None) -> None:
        assert empty_ms == EMPTY_MS
        self.ahead_bytes = ahead_bytes
        self.closed = False
        self.assigned: list[Any] = []
        self.consumer = self

    def assign(self, places: list[Any]) -> None:
        self.assigned = places

    def unassign(self) -> None:
        self.assigned = []

    def close(self) -> None:
        self.closed = True

    def poll(self, seconds: float, most: int) -> PollResult:
        assert self.assigned
        return self.results.pop(0)


def polled(*offsets: int, ended: int | None = None) -> PollResult:
    messages: list[Any] = [MemoryMessage(offset) for offset in offsets]
    return PollResult(messages, {} if ended is None else {PLACE: ended})


@pytest.fixture
def partitions(monkeypatch: pytest.MonkeyPatch) -> type[MemoryPartitions]:
    monkeypatch.setattr(reader, "Partitions", MemoryPartitions)
    return MemoryPartitions


@pytest.mark.parametrize(
    ("results", "found"),
    [
        pytest.param([polled(0, 1), polled(2)], [0, 1, 2], id="messages to the end"),
        pytest.param([polled(0, 1), polled(ended=3)], [0, 1], id="a marker at the end"),
        pytest.param([polled(0), polled(2, 3, 4)], [0, 2], id="more than was asked for"),
    ],
)
def test_what_is_read_is_assigned_until_its_end(
    partitions: type[MemoryPartitions], monkeypatch: pytest.MonkeyPatch, results: list[PollResult], found: list[int]
) -> None:
    monkeypatch.setattr(partitions, "results", [*results])
    reading = Reader(LogSettings(bootstrap="nowhere:9", prefix="p"))
    assert [record.offset for record in reading.read(*PLACE, 0, 3)] == found
    own: Any = reading._partitions
    assert (own.assigned, partitions.results) == ([], [])
    # nothing is asked where there is nothing
    assert [*reading.read(*PLACE, 3, 3)] == []


def test_what_is_left_unfinished_asks_for_nothing(
    partitions: type[MemoryPartitions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever peeks at the first message leaves the others; an old stretch that ends late takes nothing from a new."""
    monkeypatch.setattr(partitions, "results", [polled(0, 1), polled(0, 1), polled(4, 5)])
    reading = Reader(LogSettings(bootstrap="nowhere:9", prefix="p"))
    looked = next(record.offset for record in reading.peek(*PLACE, 0, 100))
    peeks: Any = reading._peeks
    assert (looked, peeks._partitions.assigned, peeks._partitions.ahead_bytes) == (0, [], PEEK_BYTES)
    old, new = reading.read(*PLACE, 0, 100), reading.read(*PLACE, 4, 100)
    assert (next(old).offset, next(new).offset) == (0, 4)
    del old
    own: Any = reading._partitions
    assert own.assigned == [PLACE.at(4)]
    reading.close()
    assert own.closed
    assert peeks._partitions.closed
