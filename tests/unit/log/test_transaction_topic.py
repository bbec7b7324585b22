"""The first commit above an LSN is found in a topic, however far back it lies and whatever lies between."""

import json
from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.core.errors import HistoryLostError
from cdc.core.position import FIRST_LOG, Lsn
from cdc.log.clients.reader import Reader, Record
from cdc.log.transaction_topic import EndsAbove, has_confirmed
from tests.unit.log.test_changes_behind import InPieces


class Topic(InPieces):
    """A transaction topic in memory: `lsns` of ENDs by offset, None where something else lies; it begins at `first`."""

    def __init__(self, lsns: list[int | None], first: int) -> None:
        self._lsns = lsns
        self._first = first

    def beginning(self, topics: list[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: self._first} for topic in topics}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        assert start >= self._first
        for offset in range(start, min(end, len(self._lsns))):
            lsn = self._lsns[offset]
            event = {"status": "BEGIN"} if lsn is None else {"status": "END", "id": f"{lsn}:{lsn}", "event_count": 0}
            yield Record(topic, partition, offset, None, json.dumps({**event, "ts_ms": 0}).encode())

    def peek(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        return self.read(topic, partition, start, end)


@st.composite
def topics(draw: st.DrawFn) -> list[int | None]:
    """Commits in the order of their LSNs, BEGINs between them."""
    count = draw(st.integers(1, 4000))
    every, gaps = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return [10 * (offset // gaps) if offset % every == 0 else None for offset in range(count)]


@given(topics(), st.data())
def test_every_end_above_is_found(lsns: list[int | None], data: st.DataObject) -> None:
    lsn = data.draw(st.integers(-5, 10 * len(lsns) + 5), "lsn")
    asked = sorted(data.draw(st.lists(st.integers(0, len(lsns) - 1), min_size=1, max_size=3), "asked"))
    above = EndsAbove(cast(Reader, Topic(lsns, 0)), "t", Lsn(lsn))
    for until in asked:
        expected = [at for at, each in enumerate(lsns[: until + 1]) if each is not None and each > lsn]
        assert above.up_to(until).offset.tolist() == expected


@given(topics(), st.data())
def test_a_topic_that_begins_behind_is_told(lsns: list[int | None], data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(lsns)), "first") if len(lsns) > 1 else 0
    lsn = data.draw(st.integers(-5, 10 * len(lsns)), "lsn")
    left = [each for each in lsns[first:] if each is not None]
    above = EndsAbove(cast(Reader, Topic(lsns, first)), "t", Lsn(lsn))
    if first and (not left or left[0] > lsn):
        with pytest.raises(HistoryLostError):
            above.up_to(len(lsns) - 1)
    else:
        expected = [at for at, each in enumerate(lsns) if at >= first and each is not None and each > lsn]
        assert above.up_to(len(lsns) - 1).offset.tolist() == expected


class Begins(Topic):
    """Commits at 10, 20, 30, …, each behind its BEGIN, which names the one before; those in `silent` name none.

    The last transaction has not ended yet.
    """

    def __init__(self, commits: int, silent: frozenset[int]) -> None:
        super().__init__([], 0)
        self._commits = commits
        self._silent = silent

    def end(self, topics: list[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: 2 * self._commits + 1} for topic in topics}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        for offset in range(start, min(end, 2 * self._commits + 1)):
            lsn = 10 * (offset // 2 + 1)
            event: dict[str, object] = {"status": "BEGIN", "id": f"{lsn}:{lsn - 5}"}
            if offset % 2:
                event = {"status": "END", "id": f"{lsn}:{lsn}", "event_count": 0}
            elif offset // 2 not in self._silent:
                event["lsn_commit"] = lsn - 10
            yield Record(topic, partition, offset, None, json.dumps({**event, "ts_ms": 0}).encode())


@pytest.mark.parametrize("at", [5, 120])
def test_an_lsn_that_is_not_in_the_log_is_known_as_such(at: int) -> None:
    """Also behind a start of the capture, whose first BEGIN names no commit, wherever the search begins."""
    for behind in range(1, 300):
        topic = cast(Reader, Begins(at + behind, frozenset({0, at})))
        # a moved slot: the session begins between two commits
        assert has_confirmed(topic, "t", Lsn(10 * at + 3), FIRST_LOG) is False, behind
        assert has_confirmed(topic, "t", Lsn(10 * at), FIRST_LOG) is True, behind
