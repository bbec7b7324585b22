"""Two live writers on one lake: whoever loses says so or has nothing to do; no row is lost, none there twice."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from cdc.core.errors import RefusedError
from cdc.core.position import Position
from cdc.core.table import TableName
from tests.contract.delta_harness import DeltaHarness
from tests.contract.followers import TABLES, batch_of, bookmark, end
from tests.contract.memory import ChangesInMemory
from tests.support.further import further
from tests.support.histories import Sent
from tests.support.lake.places import PlacedLake, place_lake
from tests.support.model import Change, CommitOrder, Delete, Insert, Key, Row, Update, apply

FRESH, ROUNDS = 100, 4


def row(key: int, text: str) -> Row:
    return {"id": key, "small": key, "big": text}


COPY: dict[Key, Row] = {(n,): row(n, "old") for n in (*range(ROUNDS + 1), FRESH)}


def transaction(number: int) -> tuple[int, Sent]:
    """In both tables: a fresh row, a new value for an old one, and the fresh row of the transaction before is gone."""
    changes: list[Change] = []
    for table in TABLES:
        first, second, third = (CommitOrder(end(number).offset, len(changes) + nth) for nth in (1, 2, 3))
        changes.append(Insert(table.name, first, (FRESH + number,), row(FRESH + number, "fresh")))
        changes.append(Update(table.name, second, (number,), row(number, "new")))
        changes.append(Delete(table.name, third, (FRESH + number - 1,)))
    return number, Sent(tuple(changes), {})


def expected(table: TableName, numbers: range) -> dict[Key, Row]:
    return apply(COPY, [c for n in numbers for c in transaction(n)[1].changes if c.table == table])


def written(writer: DeltaHarness, batch: ChangesInMemory, position: Position, together: Barrier) -> bool:
    """Does the writer get its batch applied, at the same time as the other one?"""
    together.wait()
    try:
        writer.apply(batch, position)
    except RefusedError:
        return False
    return True


@pytest.fixture(params=["folder", further("object store", "object store")])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    """That a commit of an object store is one writer's alone is tried in `unit/lake`, as are conflicts there."""
    return place_lake(request, tmp_path)


def test_two_concurrent_writers_equal_one(lake: PlacedLake) -> None:
    writers = [DeltaHarness(lake), DeltaHarness(lake)]
    for table in TABLES:
        writers[0].load(table, COPY, bookmark(0))
    refused = 0
    for number in range(1, ROUNDS + 1):
        batch, position = batch_of([transaction(number)])
        together = Barrier(2)
        with ThreadPoolExecutor(2) as threads:
            tries = [threads.submit(written, writer, batch, position, together) for writer in writers]
            ended = [each.result() for each in tries]
        refused += ended.count(False)
        if not any(ended):
            writers[0].apply(batch, position)
        for table in TABLES:
            assert writers[1].rows(table) == expected(table.name, range(1, number + 1))
        assert writers[1].position() == position
    assert refused, "they never wrote at the same time"
