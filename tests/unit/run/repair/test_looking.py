"""Keys that differ are found by looks; what those cannot tell is left to Spark; what cannot be repaired is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from cdc.core.errors import PreconditionError, TableStoppedError
from cdc.core.table import Table
from cdc.run.repair import looking
from cdc.run.repair.looking import LookingFinder
from cdc.run.verify.rolling import look
from cdc.sinks.lake.feed.keyed_rows import key_schema
from tests.support.histories import THINGS
from tests.unit.run.verify.test_table_looks import NOBODY, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(looking, "open_scratch", lambda state: state)
    monkeypatch.setattr(looking, "read_keys", read_names)
    return World(tmp_path, monkeypatch)


def read_names(_: object, table: Table, names: Sequence[Mapping[str, str | None]], __: bytes) -> pa.Table | None:
    """As Postgres would."""
    if not all(str(name["id"]).isdecimal() for name in names):
        return None
    return pa.Table.from_pylist([{"id": int(name["id"] or "")} for name in names], key_schema(table))


def find(world: World, table: Table = THINGS, most: int = 10) -> list[int] | None:
    """The keys that differ in some follower."""
    pipeline = SimpleNamespace(
        **{name: getattr(world, name) for name in ("open_whole_feed", "lake_name")},
        state=world.scratch,
        settings=SimpleNamespace(source=SimpleNamespace(mask_key=b"")),
    )
    finder = LookingFinder(cast("Any", pipeline), NOBODY, most, 1.0, lambda: None)
    found = finder.find(table, world.looks().readers)
    return None if found is None else sorted(found[1]["id"].to_pylist())


def test_spoilt_keys_are_found_and_no_others(world: World) -> None:
    assert find(world) == []
    for key in (3, 7):
        world.spoil(key)
    assert find(world) == [3, 7]


def test_what_changes_meanwhile_is_no_fault(world: World) -> None:
    world.spoil(3)
    changes = iter(("once", "twice"))
    world.write = lambda: world.change(5, change) if (change := next(changes, None)) else None
    assert find(world) == [3]


def test_what_differs_and_changes_at_each_look_is_repaired_too(world: World) -> None:
    """A change may leave what is spoilt: a value that is not sent is taken from the row that is there."""
    world.write = lambda: world.change(5, f"at {world.number}")
    assert find(world) == [5]
    world.write = lambda: None
    assert find(world) == []


def test_more_than_may_be_repaired_are_refused(world: World) -> None:
    for key in range(1, 5):
        world.spoil(key)
    assert find(world, most=4) == [1, 2, 3, 4]
    with pytest.raises(PreconditionError, match=r"more than 3 keys of public\.things differ"):
        find(world, most=3)


def test_more_than_a_look_keeps_the_texts_of_are_left_to_spark(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "MOST_TEXTS", 1)
    world.spoil(3)
    assert find(world) == [3]
    world.log.append((1001, {"id": 1001, "small": 0, "big": "no source has it"}))
    world.log.append((1002, {"id": 1002, "small": 0, "big": "no source has it"}))
    assert find(world) is None


def test_a_table_without_a_key_is_refused_where_it_differs(world: World) -> None:
    keyless = replace(THINGS, key=())
    world.spoil(3)
    with pytest.raises(PreconditionError, match=r"public\.things has no key"):
        find(world, keyless)


def test_a_follower_that_has_stopped_is_told(world: World) -> None:
    readers = {
        name: replace(each, stops=lambda: {THINGS.name: TableStoppedError("it is full", "make room")})
        for name, each in world.looks().readers.items()
    }
    finder = LookingFinder(NOBODY, NOBODY, 10, 1.0, lambda: None)
    with pytest.raises(PreconditionError, match="it is full"):
        finder.find(THINGS, cast("Any", readers))
