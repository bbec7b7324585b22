"""A follower's state in Kafka is read on from look to look, and begun anew after a record that cannot be read."""

from typing import ClassVar

import pytest

from cdc.core.errors import PreconditionError
from cdc.log.clients.reader import Record
from cdc.log.settings import LogSettings
from cdc.sinks import transactional_state
from cdc.sinks.transactional_state import TopicState


class MemoryTail:
    """The tail of a topic in memory. `looks`: the records that each look has read."""

    records: ClassVar[list[bytes]] = []
    looks: ClassVar[list[list[bytes]]] = []

    def __init__(self, log: LogSettings, topic: str) -> None:
        self._read: int | None = None

    def close(self) -> None:
        self._read = None

    def read(self) -> tuple[bool, list[Record]]:
        is_anew, since = self._read is None, self.records[self._read or 0 :]
        self._read = len(self.records)
        MemoryTail.looks.append(since)
        return is_anew, [Record("positions", 0, at, None, value) for at, value in enumerate(since)]


def join(state: bytes, record: Record) -> bytes:
    if record.value == b"!":
        raise PreconditionError("another follower's", "")
    return state + (record.value or b"")


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> TopicState[bytes]:
    monkeypatch.setattr(transactional_state, "TopicTail", MemoryTail)
    monkeypatch.setattr(MemoryTail, "records", [b"a", b"b"])
    monkeypatch.setattr(MemoryTail, "looks", [])
    return TopicState(LogSettings(bootstrap="nowhere:9", prefix="p"), "positions", b"", join)


def test_each_look_reads_what_came_since(state: TopicState[bytes]) -> None:
    assert [state.read(), state.read()] == [b"ab", b"ab"]
    MemoryTail.records.append(b"c")
    assert state.read() == b"abc"
    assert MemoryTail.looks == [[b"a", b"b"], [], [b"c"]]


def test_after_an_unreadable_record_all_are_read_again(state: TopicState[bytes]) -> None:
    state.read()
    MemoryTail.records.append(b"!")
    for _ in range(2):
        with pytest.raises(PreconditionError):
            state.read()
    MemoryTail.records[-1] = b"c"
    assert state.read() == b"abc"


def test_closed_one_begins_anew(state: TopicState[bytes]) -> None:
    assert state.read() == b"ab"
    state.close()
    assert state.read() == b"ab"
