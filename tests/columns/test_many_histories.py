"""Very many histories, a thousand of them in one table at a time: its key begins with the number of the history.

What shrinks to a small example is `test_fold.py`; this is about what comes up once in a hundred thousand times. So many
are played in CI; `CDC_TEST_HISTORIES=1000000 pytest tests/columns/test_many_histories.py` plays more.
"""

import os
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from cdc.columns.fold import fold
from cdc.core.change import UNCHANGED, Change, Delete, Insert, Key, Place, Row, SentRow, Truncate, Update
from cdc.core.table import Column, Kind, Table, TableName
from tests.columns.model_changes import applied, as_columns
from tests.core.histories import VERBS, Sent, Step, play

TOGETHER = 1000
HISTORIES = int(os.environ.get("CDC_TEST_HISTORIES", "100_000"))
TABLE = Table(
    TableName("public", "cases"),
    (*(Column(name, Kind.INTEGER) for name in ("history", "id", "small")), Column("big", Kind.TEXT)),
    ("history", "id"),
)
COPY: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": f"old {n}"} for n in range(3)}


def steps(random: Random) -> list[list[Step]]:
    """The steps of a history's transactions; many come to nothing, since Postgres would refuse them."""
    return [[_step(random) for _ in range(random.randint(1, 5))] for _ in range(random.randint(1, 6))]


def _step(random: Random) -> Step:
    big = random.choice((None, "", "x", "yz"))
    return Step(
        random.choice(VERBS),
        random.randrange(5),
        random.randrange(5),
        random.randrange(100),
        big,
        random.random() < 0.5,
    )


def numbered(number: int, row: SentRow) -> SentRow:
    return {"history": number, **row}


def moved(number: int, change: Change, before: int) -> Change:
    """A history's change as one of the table that has all of them, behind so many others of its transaction."""
    place = Place(change.place.rank, change.place.total_order + before)
    match change:
        case Insert():
            former = (number, *change.moved_from) if change.moved_from else None
            return Insert(TABLE.name, place, (number, *change.key), numbered(number, change.row), former)
        case Update():
            return Update(TABLE.name, place, (number, *change.key), numbered(number, change.row))
        case Delete():
            return Delete(
                TABLE.name, place, (number, *change.key), (number, *change.moved_to) if change.moved_to else None
            )
        case Truncate():
            raise AssertionError("it would be of all histories")


def together(histories: dict[int, list[Sent]]) -> list[Change]:
    """All their changes, transactions of one rank as one."""
    sizes: Counter[int] = Counter()
    changes = list[Change]()
    for number, history in histories.items():
        for sent in history:
            rank = sent.changes[0].place.rank
            changes += [moved(number, change, sizes[rank]) for change in sent.changes]
            sizes[rank] += len(sent.changes)
    return changes


def rows_of(number: int, rows: dict[Key, Row]) -> Iterator[tuple[Key, Row]]:
    for key, row in rows.items():
        yield (number, *key), {"history": number, **row}


@pytest.mark.timeout(3600)
def test_many_histories_end_as_postgres_has_them() -> None:
    random, kinds = Random(20261122), Counter[str]()
    for first in range(0, HISTORIES, TOGETHER):
        numbers = range(first, min(first + TOGETHER, HISTORIES))
        histories = {number: play(COPY, steps(random)) for number in numbers}
        changes = together(histories)
        rows = dict(pair for number in numbers for pair in rows_of(number, COPY))
        # two batches, cut anywhere, each in any order and with what came twice
        cut = random.randrange(8)
        for batch in ([c for c in changes if c.place.rank <= cut], [c for c in changes if c.place.rank > cut]):
            shuffled = [*batch, *batch[::7]]
            random.shuffle(shuffled)
            columns = as_columns(TABLE, shuffled)
            rows = applied(TABLE, rows, fold(columns, columns.tx_id))
        ends = {number: history[-1].rows if history else COPY for number, history in histories.items()}
        assert rows == dict(pair for number in numbers for pair in rows_of(number, ends[number]))
        kinds.update(type(change).__name__ for change in changes)
        kinds["unsent"] += sum(isinstance(c, Update) and c.row["big"] is UNCHANGED for c in changes)
    # the random histories are of what they are meant to be of
    assert min(kinds[kind] for kind in ("Insert", "Update", "Delete", "unsent")) > HISTORIES // 4
