"""Very many histories, a thousand of them in one table at a time: its key begins with the number of the history.

What shrinks to a small example is `test_fold.py`; this is about what comes up once in ten thousand times. Ten
thousand are played in a run, fifty thousand with `--further`, a column coming on the way; or as many as
CDC_TEST_HISTORIES says.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from cdc.columns.netting.net_changes import fold
from cdc.core.table import Column, Kind, Table, TableName
from tests.support.examples import scaled
from tests.support.histories import Sent, play, random_steps
from tests.support.model import (
    UNCHANGED,
    Change,
    CommitOrder,
    Delete,
    Insert,
    Key,
    Row,
    SentRow,
    Truncate,
    Update,
    apply,
)
from tests.support.model_changes import applied, as_columns

TOGETHER = 1000
HISTORIES = int(os.environ.get("CDC_TEST_HISTORIES", scaled(50_000)))
TABLE = Table(
    TableName("public", "cases"),
    (*(Column(name, Kind.INTEGER) for name in ("history", "id", "small")), Column("big", Kind.TEXT)),
    ("history", "id"),
)
WIDENED = replace(TABLE, columns=(*TABLE.columns, Column("later", Kind.INTEGER, added=True)))
"""The table once a column came that is null in the rows that were there."""
COPY: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": f"old {n}"} for n in range(3)}


def numbered(number: int, row: SentRow) -> SentRow:
    return {"history": number, **row}


def moved(number: int, change: Change, before: int) -> Change:
    """A history's change as one of the table that has all of them, behind so many others of its transaction."""
    place = CommitOrder(change.place.rank, change.place.total_order + before)
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


def widened(change: Change, since: int) -> Change:
    """The change as it is sent once the column is there: every row that is sent has a value in it."""
    if change.place.rank > since and isinstance(change, Insert | Update):
        return replace(change, row={**change.row, "later": change.place.rank})
    return change


def rows_of(number: int, rows: dict[Key, Row]) -> Iterator[tuple[Key, Row]]:
    for key, row in rows.items():
        yield (number, *key), {"history": number, **row}


@pytest.mark.timeout(3600)
def test_many_histories_end_as_in_postgres() -> None:
    random, kinds = Random(20261122), Counter[str]()
    for first in range(0, HISTORIES, TOGETHER):
        numbers = range(first, min(first + TOGETHER, HISTORIES))
        histories = {number: play(COPY, random_steps(random)) for number in numbers}
        # a column comes at one place, two batches are cut at another
        since, cut = random.randrange(8), random.randrange(8)
        changes = [widened(change, since) for change in together(histories)]
        copied = dict(pair for number in numbers for pair in rows_of(number, COPY))
        rows = copied
        for low, high in pairwise(sorted({-1, since, cut, 8})):
            batch = [change for change in changes if low < change.place.rank <= high]
            table = WIDENED if low >= since else TABLE
            # in any order, and with what came twice
            shuffled = [*batch, *batch[::7]]
            random.shuffle(shuffled)
            columns = as_columns(table, shuffled)
            rows = applied(table, rows, fold(columns, columns.tx_id))
        ends = {number: history[-1].rows if history else COPY for number, history in histories.items()}
        later = {key: row.get("later") for key, row in apply(copied, changes).items()}
        found = {key: (row.get("later"), {n: row[n] for n in TABLE.column_names}) for key, row in rows.items()}
        expected = dict(pair for number in numbers for pair in rows_of(number, ends[number]))
        assert found == {key: (later[key], row) for key, row in expected.items()}
        kinds.update(type(change).__name__ for change in changes)
        kinds["unsent"] += sum(isinstance(c, Update) and c.row["big"] is UNCHANGED for c in changes)
    # the random histories are of what they are meant to be of
    assert min(kinds[kind] for kind in ("Insert", "Update", "Delete", "unsent")) > HISTORIES // 4
