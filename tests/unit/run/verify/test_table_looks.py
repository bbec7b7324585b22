"""Looks at a table of a lake that is written meanwhile: no false difference, and each spoilt row that rests is found.

The source is a dictionary here, with a lake that is real and a follower that is a log.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from cdc.columns.rows.documents import documents
from cdc.columns.rows.row_prints import StoredRows, name_rows, store, to_bytes
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.position import Lsn
from cdc.core.table import Table
from cdc.run.verify.pinned_source import FollowerReader
from cdc.run.verify.report import DIFFERENT, EQUAL, MOVED, STOPPED
from cdc.run.verify.rolling import moved_rows, table_looks
from cdc.run.verify.rolling.duty_cycle import DutyCycle
from cdc.run.verify.rolling.table_looks import TableLooks
from cdc.run.verify.rolling.table_turn import take_turn
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.metadata import table as metadata_table
from tests.contract.followers import end
from tests.support.histories import THINGS
from tests.support.lake.places import in_folder
from tests.support.lake.tracked import NAME, ROWS, TrackedLake
from tests.support.model import CommitOrder, Delete, Row

NOBODY = cast("Any", None)


class World:
    """A source whose commits reach lake and log later, at once when somebody waits; `write` is called all the time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lake = TrackedLake(in_folder(folder))
        self.source: dict[int, Row] = {row["id"]: row for row in ROWS}
        self.hidden: dict[int, Row] = {}
        """Rows that the log has, and the source shows as they were."""
        self.pending: list[tuple[int, int, Row | None]] = []
        self.number = 0
        self.write: Callable[[], None] = lambda: None
        self.log: list[tuple[int, Row | None]] = [*self.source.items()]
        monkeypatch.setattr(table_looks, "read_pages", self._read_pages)
        monkeypatch.setattr(table_looks, "await_shown", lambda *_: self.hidden.clear())
        monkeypatch.setattr(table_looks, "wait_for_lsn", lambda *_: self.catch_up())
        monkeypatch.setattr(TableLooks, "_mark_end", lambda _: Lsn(10 * self.number))
        self.lake_name = "lake"
        self.scratch = folder / "scratch"
        self.scratch.mkdir()

    def open_whole_feed(self) -> LakeFeed:
        return LakeFeed(None, self.lake.lake)

    def change(self, key: int, value: str | None) -> None:
        """Commit a row, or its end, in the source."""
        self.number += 1
        row: Row | None = None if value is None else {"id": key, "small": key, "big": value}
        self.pending.append((self.number, key, row))
        if row is None:
            self.source.pop(key, None)
        else:
            self.source[key] = row

    def catch_up(self) -> None:
        for number, key, row in self.pending:
            if row is None:
                self.lake.apply(number, Delete(NAME, CommitOrder(end(number).offset, 1), (key,)))
            else:
                self.lake.put(number, row)
            self.log.append((key, row))
        self.pending.clear()

    def spoil(self, key: int) -> None:
        """The log has another row than it was given."""
        self.log.append((key, {"id": key, "small": 0, "big": "spoilt"}))

    def looks(self) -> TableLooks:
        readers = {
            "lake": FollowerReader(NOBODY, NOBODY, NOBODY, stored=self._store_lake),
            "log": FollowerReader(NOBODY, NOBODY, NOBODY, stored=self._store_log),
        }
        return TableLooks(cast("Any", self), NOBODY, THINGS, readers, self.scratch, DutyCycle())

    def _read_pages(self, *_: object) -> Iterator[pa.Table]:
        """In two transactions, between which rows are written."""
        first = [key for key in self.source if key % 2]
        yield self._to_rows(first)
        self.write()
        yield self._to_rows([key for key in self.source if not key % 2])
        self.write()

    def _to_rows(self, keys: list[int]) -> pa.Table:
        shown = {**self.source, **self.hidden}
        return pa.Table.from_pylist([dict(shown[key]) for key in keys], arrow_schema(THINGS))

    def _store_lake(self, _: object) -> Iterator[StoredRows]:
        feed = self.open_whole_feed()
        self.write()
        self.catch_up()
        yield from store(feed.read(THINGS, feed.last_cut()), THINGS, None)

    def _store_log(self, _: object) -> Iterator[StoredRows]:
        self.write()
        self.catch_up()
        for key, row in self.log:
            named = pa.Table.from_pylist([{"id": key, **(row or {})}], arrow_schema(THINGS))
            text = to_bytes(documents(named, THINGS))[0] if row else None
            yield StoredRows(partial(name_rows, named, THINGS, None), [text], is_log=True)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def words(world: World, *, settles: bool = False) -> dict[str, str]:
    return {name: found.word for name, found in take_turn(world.looks().look, 9, settles=settles)[1].items()}


@pytest.mark.parametrize("seed", range(2))
def test_nothing_differs_falsely_while_rows_are_written(world: World, seed: int) -> None:
    chance = random.Random(seed)

    def write() -> None:
        for _ in range(chance.randrange(3)):
            world.change(chance.randrange(1, 9), chance.choice(("a", "b", None)))

    for key in range(3, 30):
        world.change(key, "at rest")
    world.catch_up()
    world.write = write
    for _ in range(3):
        _, found = take_turn(world.looks().look, 9, settles=False)
        for verdict in found.values():
            assert verdict.word in (EQUAL, MOVED), verdict
            assert verdict.moved <= 9
    world.spoil(20)
    _, found = take_turn(world.looks().look, 9, settles=False)
    log = found["log"].comparison
    assert log is not None
    assert [(each.key, each.kind, each.columns) for each in log.keys] == [({"id": "20"}, "differing", ("small", "big"))]
    assert found["lake"].word in (EQUAL, MOVED)
    # who waits gets a verdict on all that has rested
    world.write = lambda: None
    assert words(world, settles=True) == {"lake": EQUAL, "log": DIFFERENT}


def test_what_the_source_does_not_show_yet_differs_in_nothing(world: World) -> None:
    """A standby holds up the answer to its commit: the followers are ahead of the source."""
    before = dict(world.source[1])
    world.change(1, "committed, and not shown")
    world.catch_up()
    world.hidden[1] = before
    assert words(world) == {"lake": EQUAL, "log": EQUAL}


def test_a_follower_that_is_equal_is_read_once(world: World) -> None:
    """A follower is read as a whole, however few names are looked at."""
    world.log.append((2, None))
    looks = world.looks()
    read = list[str]()

    def count(name: str) -> FollowerReader:
        reader = looks.readers[name]

        def stored(table: Table) -> Iterator[StoredRows]:
            read.append(name)
            yield from reader.stored(table)

        return replace(reader, stored=stored)

    counted = replace(looks, readers={name: count(name) for name in looks.readers})
    _, found = take_turn(counted.look, 9, settles=False)
    assert (found["log"].word, found["lake"].word) == (DIFFERENT, EQUAL)
    assert read == ["lake", "log", "log"]


def test_a_row_that_is_missing_or_too_many_is_found(world: World) -> None:
    world.log.append((2, None))
    world.log.append((77, {"id": 77, "small": 1, "big": "of nobody"}))
    _, found = take_turn(world.looks().look, 9, settles=False)
    log = found["log"].comparison
    assert log is not None
    assert {(each.key["id"], each.kind) for each in log.keys} == {("2", "missing"), ("77", "extra")}
    assert found["lake"].word == EQUAL


def test_a_follower_that_cannot_be_read_is_told_by_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: World, _: object) -> Iterator[StoredRows]:
        raise PreconditionError("the topic is gone", "copy it again")

    monkeypatch.setattr(World, "_store_log", fail)
    assert words(world) == {"lake": EQUAL, "log": STOPPED}
    assert not [*world.scratch.iterdir()]


def test_a_table_that_is_copied_again_meanwhile_has_no_verdict(world: World) -> None:
    def copy_again() -> None:
        if world.number == 0:
            world.number = 2
            world.lake.copy_again(THINGS, [dict(row) for row in ROWS], 2)

    world.write = copy_again
    with pytest.raises(CdcError, match="was copied again"):
        words(world)
    assert not [*world.scratch.iterdir()]


def test_a_long_look_keeps_up_with_a_lake_that_forgets_its_cuts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those from the begin of the look are gone before the source is read."""
    monkeypatch.setattr(moved_rows, "KEEP_UP_SECONDS", 0.0)
    # of cuts: they are deleted where files are compacted
    monkeypatch.setattr(metadata_table, "COMPACT_AT_FILES", 2)
    written = list[int]()

    def write() -> None:
        written.append(1)
        world.change(1, f"at {len(written)}")
        world.catch_up()
        if len(written) <= 2:
            # all but the newest cut
            world.lake.follower.cuts.maintain(0, None)

    world.write = write
    _, found = take_turn(world.looks().look, 9, settles=False)
    assert {name: (verdict.word, verdict.moved) for name, verdict in found.items()} == {
        "lake": (MOVED, 1),
        "log": (MOVED, 1),
    }
    # in two transactions of the source, and by two followers
    assert len(written) == 4
