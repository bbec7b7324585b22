"""A change of a table's columns is found in the schema history, also where rows would not tell it."""

import json
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from cdc.core.position import Lsn
from cdc.core.table import TableName
from cdc.log.clients.reader import Reader, Record
from cdc.log.settings import LogSettings
from cdc.run.read.shape_watch import Columns, ShapeWatch

INT, DATE = 23, 1082
THINGS, NOW = TableName("public", "things"), (("id", INT), ("n", INT))
COPIED_AT = 30


class History:
    """The schema history in memory: entries of (LSN, table, columns), a table that is gone has no columns."""

    def __init__(self, *entries: tuple[int, str, Columns | None]) -> None:
        self._entries = entries

    def beginning(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: 0} for topic in topics}

    def end(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: len(self._entries)} for topic in topics}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        for offset, (lsn, table, columns) in enumerate(self._entries[start:end], start):
            name = {"schema": "public", "table": table}
            shape = {"kind": "r", "columns": [{"name": n, "type": t, "number": 1} for n, t in columns or ()]}
            after = None if columns is None else {**name, "shape": json.dumps(shape), "relation": 7}
            envelope = {"source": {"lsn": lsn}, "after": after, "op": "u"}
            yield Record(topic, 0, offset, json.dumps(name).encode(), json.dumps(envelope).encode())


BEFORE = [(10, "things", (("id", DATE),)), (20, "things", NOW)]


@pytest.mark.parametrize(
    ("entry", "is_news"),
    [
        ((40, "things", NOW), False),
        ((40, "others", (("id", DATE),)), False),
        ((COPIED_AT, "things", (("id", DATE),)), False),
        ((40, "things", (("id", INT), ("n", DATE))), True),
        ((40, "things", (("id", INT),)), True),
        ((40, "things", (("n", INT), ("id", INT))), True),
        ((40, "things", None), True),
    ],
)
@pytest.mark.parametrize("start", [0, 2], ids=["not applied yet", "applied"])
def test_change_behind_the_copy_is_found(entry: tuple[int, str, Columns | None], is_news: bool, start: int) -> None:
    log = LogSettings(bootstrap="nowhere:9", prefix="p")
    watch = ShapeWatch(log, "p.cdc.shapes", start, THINGS, Lsn(COPIED_AT), NOW)
    assert watch._has_news(cast("Reader", History(*BEFORE, entry))) is is_news
