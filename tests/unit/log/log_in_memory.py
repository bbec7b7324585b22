"""A log without a broker, for moments that no broker can be made to have: one partition a topic, read at once."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cdc.columns.netting.changes import Messages
from cdc.core.table import Column, Kind, Table, TableName
from tests.support.debezium import as_messages, messages
from tests.support.model import Change, CommitOrder, Insert

POLL_SECONDS = 0.001
"""For how long a read waits where nothing comes."""


def table(name: str) -> Table:
    return Table(TableName("public", name), (Column("id", Kind.INTEGER), Column("was", Kind.TEXT)), ("id",))


def inserts(of: Table, transactions: Sequence[int], was: str = "x") -> list[Messages]:
    """One inserted row a transaction, each a message."""
    return one_by_one(
        of, [Insert(of.name, CommitOrder(rank, 1), (rank,), {"id": rank, "was": was}) for rank in transactions]
    )


def one_by_one(of: Table, changes: Sequence[Change]) -> list[Messages]:
    """The messages of these changes."""
    whole = messages(of, changes, 1)[0]
    return [whole.slice(at, at + 1) for at in range(len(whole))]


class LogInMemory:
    """What `RunReader` asks a standing consumer for. `news`: what the next reads bring, topic by topic."""

    def __init__(self, topics: Mapping[str, Sequence[Messages]], news: Iterator[Mapping[str, Messages]]) -> None:
        self._topics = {topic: [*found] for topic, found in topics.items()}
        self._start: dict[str, int] = {}
        self._news = news
        self.began: dict[str, int] = {}
        self.most_waiting: dict[str, int] = {}
        self.forgotten: set[str] = set()
        self.reads = 0

    def put(self, topic: str, found: Sequence[Messages]) -> None:
        """Make this the topic's content, from offset 0 on."""
        self._topics[topic] = [replace(each, offset=np.full(len(each), at, np.int64)) for at, each in enumerate(found)]

    def seek(self, topic: str, offsets: Mapping[int, int]) -> None:
        self._start[topic] = self.began[topic] = offsets.get(0, 0)

    def waiting(self, topic: str) -> int:
        found = len(self._waiting(topic))
        self.most_waiting[topic] = max(self.most_waiting.get(topic, 0), found)
        return found

    def size(self, topic: str) -> int:
        return sum(len(value or b"") for each in self._waiting(topic) for value in each.value)

    def messages(self, topic: str) -> Messages:
        found = self._waiting(topic)
        names = Messages.__dataclass_fields__
        rows = [{name: _first(getattr(each, name), name) for name in names} for each in found]
        return as_messages(rows)

    def advance(self, topic: str, until: Mapping[int, int]) -> None:
        self._start[topic] = max(self._start[topic], until.get(0, 0))

    def starts(self, topic: str) -> dict[int, int]:
        return {0: self._start[topic]}

    def read_on(self, wanted: Collection[str] = ()) -> bool:
        self.reads += 1
        found = next(self._news)
        for topic, message in found.items():
            self._topics.setdefault(topic, []).append(message)
        if not found:
            time.sleep(POLL_SECONDS)
        return bool(found)

    def behind(self, topic: str) -> int:
        return 0

    def discover(self, topic: str) -> int:
        return 1

    def forget(self, topic: str) -> None:
        """The next read seeks anyway."""
        self.forgotten.add(topic)

    def check_alive(self) -> None:
        """It is."""

    def release(self) -> None:
        """Nothing is fetched."""

    def _waiting(self, topic: str) -> list[Messages]:
        return [each for each in self._topics.get(topic, []) if each.offset[0] >= self._start[topic]]


def _first(column: object, name: str) -> object:
    return column if name == "topic" else column[0]  # type: ignore[index]
