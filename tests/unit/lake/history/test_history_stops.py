"""A history's trouble is its own: it stops by name, its table goes on, and the next copy begins an epoch."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from cdc.core.errors import HistoryLostError, PreconditionError, UnreachableError
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.lake.history import histories, kept
from cdc.sinks.lake.history.shape import history_name
from cdc.sinks.lake.table.load import load_copy, prepare_folder, release_table
from tests.contract.followers import OTHERS, SYSTEM
from tests.support.histories import THINGS
from tests.support.lake.places import PLACES, PlacedLake, in_folder, place_lake
from tests.support.lake.tables import write_copy
from tests.support.lake.tracked import NAME, ROWS, TrackedLake, Values

HISTORY = history_name(NAME)
TEXT: Values = {"id": 1, "small": 9, "big": "z"}


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Any) -> PlacedLake:
    return place_lake(request, tmp_path)


def newest_commit(lake: PlacedLake) -> Any:
    return max((lake.disk(HISTORY) / "_delta_log").glob("*.json"))


def remove_folder(lake: PlacedLake) -> None:
    shutil.rmtree(lake.disk(HISTORY))


def put_back(lake: PlacedLake) -> None:
    newest_commit(lake).unlink()


def garble_log(lake: PlacedLake) -> None:
    newest_commit(lake).write_text("not json")


DAMAGE: dict[str, tuple[Callable[[PlacedLake], None], str]] = {
    "gone": (remove_folder, "gone"),
    "put back": (put_back, "version"),
    "garbled": (garble_log, ""),
}


def rows_of(tracked: TrackedLake, name: TableName) -> int:
    return tracked.follower.tables.all()[name].writer.snapshot.live_rows


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "started again"])
@pytest.mark.parametrize("name", DAMAGE)
def test_a_lost_history_stops_alone(lake: PlacedLake, name: str, is_running: bool) -> None:
    tracked, (damage, why) = TrackedLake(lake), DAMAGE[name]
    tracked.put(1, ROWS[0])
    damage(lake)
    if not is_running:
        tracked.restart()
        # as a stream does when it starts
        tracked.follower.highest_offset()
    tracked.put(2, TEXT)
    tracked.put(3, TEXT, table=OTHERS.name)
    assert not tracked.follower.tables.stops()
    [said] = tracked.said
    assert said.startswith("public.things_history is kept no further, and lacks what public.things changes after 0/A: ")
    assert why in said
    assert "`cdc bootstrap --again public.things`" in said
    cut = tracked.follower.cuts.last()
    assert cut
    assert cut.position.lsn == 30
    assert str(HISTORY) not in cut.versions
    tracked.restart()
    [stop] = tracked.follower.histories.stops(tracked.follower.tables.all())
    assert said.startswith(str(stop))
    tracked.put(4, TEXT)
    assert tracked.follower.histories.take_notes() == []


@pytest.mark.parametrize("name", DAMAGE)
def test_the_named_remedy_begins_an_epoch(lake: PlacedLake, name: str) -> None:
    tracked = TrackedLake(lake)
    tracked.put(1, ROWS[0])
    DAMAGE[name][0](lake)
    tracked.put(2, TEXT)
    assert len(tracked.said) == 1
    tracked.restart()
    tracked.put(4, TEXT)
    tracked.copy_again(THINGS, [TEXT], 6)
    assert tracked.follower.histories.stops(tracked.follower.tables.all()) == []
    assert tracked.said[-1] == (
        "public.things_history was stopped; the history of public.things goes on in public.things_history_2"
    )
    tracked.put(7, {**TEXT, "small": 10})
    assert tracked.as_of(60) == (THINGS.column_names, [TEXT])
    assert tracked.as_of(70)[1] == [{**TEXT, "small": 10}]
    with pytest.raises(HistoryLostError):
        tracked.as_of(45)


@pytest.mark.parametrize("error", [RuntimeError("odd"), RecursionError(), KeyError("x"), FileNotFoundError("gone")])
def test_whatever_happens_to_a_history_its_table_goes_on(lake: PlacedLake, error: Exception) -> None:
    tracked = TrackedLake(lake)
    with patch.object(histories, "make_rows", side_effect=error):
        tracked.put(1, TEXT)
    tracked.put(2, TEXT, table=OTHERS.name)
    assert len(tracked.said) == 1
    assert "\n" not in tracked.said[0]
    assert not tracked.follower.tables.stops()
    cut = tracked.follower.cuts.last()
    assert cut
    assert cut.position.lsn == 20


@pytest.mark.parametrize("error", [UnreachableError("the store is silent"), OSError(errno.ENOSPC, "disk full")])
def test_the_trouble_of_all_is_no_stop(lake: PlacedLake, error: Exception) -> None:
    tracked = TrackedLake(lake)
    with patch.object(histories, "make_rows", side_effect=error), pytest.raises(type(error)):
        tracked.put(1, TEXT)
    tracked.restart()
    tracked.put(1, TEXT)
    assert not tracked.said
    assert tracked.as_of(10)[1][0] == TEXT


def test_a_lost_table_is_not_its_historys_trouble(lake: PlacedLake) -> None:
    tracked = TrackedLake(lake)
    for path in tracked.follower.tables.all()[NAME].writer.snapshot.files:
        (lake.disk(NAME) / path).unlink()
    # the history needs the keys that the table has
    tracked.truncate(1)
    [stop] = tracked.follower.tables.stops()
    assert (stop.name, stop.copy) == (NAME, True)
    assert not tracked.said
    tracked.copy_again(THINGS, [TEXT], 4)
    assert [epoch.number for epoch in tracked.epochs()] == [1]
    assert tracked.as_of(40)[1] == [TEXT]
    assert not tracked.follower.histories.stops(tracked.follower.tables.all())


ODD: dict[str, tuple[Table, str]] = {
    "no key": (Table(NAME, THINGS.columns, ()), "it has no key"),
    "a name of ours": (Table(NAME, (*THINGS.columns, Column("_LSN", Kind.BIGINT)), ("id",)), "it has a column _LSN"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_table_that_can_have_no_history_any_more_is_followed_on(tmp_path: Any, name: str) -> None:
    tracked, (table, why) = TrackedLake(in_folder(tmp_path)), ODD[name]
    tracked.put(1, ROWS[0])
    tracked.copy_again(table, ROWS, 3)
    assert [why in said for said in tracked.said] == [True]
    assert rows_of(tracked, NAME) == 2
    # mended: it goes on with the next copy
    tracked.copy_again(THINGS, ROWS, 5)
    assert tracked.as_of(50) == (THINGS.column_names, [*ROWS])
    assert tracked.as_of(10) == (THINGS.column_names, [*ROWS])
    with pytest.raises(HistoryLostError):
        tracked.as_of(30)


@pytest.mark.parametrize("is_damaged", [False, True], ids=["whole", "damaged"])
def test_nothing_takes_the_place_of_a_history(lake: PlacedLake, is_damaged: bool) -> None:
    tracked, table = TrackedLake(lake), Table(HISTORY, THINGS.columns, ("id",))
    tracked.put(1, TEXT)
    before = {path: path.read_bytes() for path in lake.disk(HISTORY).rglob("*.*") if path.is_file()}
    if is_damaged:
        garble_log(lake)
    copied, mark = write_copy(lake, table, ROWS), Bookmark(Lsn(15), SYSTEM, 1)
    # the configuration does not name the history any more
    tracked.restart(histories=())
    tracked.follower.tables.add([HISTORY])
    refused = pytest.raises(
        PreconditionError, match=r"public\.things_history: a history lies in .*, and nothing replac"
    )
    for anew in (False, True):
        with refused:
            load_copy(lake, table, [copied], mark, anew=anew)
        with refused:
            load_copy(lake.of_views, table, [copied], mark, anew=anew)
    if not is_damaged:
        with refused:
            prepare_folder(lake, HISTORY)
        with refused:
            release_table(lake, HISTORY)
    assert HISTORY not in tracked.follower.tables.all()
    for path, content in before.items():
        assert is_damaged or path.read_bytes() == content


@pytest.mark.parametrize("of", ["copied", "released"])
def test_a_history_takes_no_other_tables_place(lake: PlacedLake, of: str) -> None:
    other = Table(HISTORY, THINGS.columns, ("id",))
    load_copy(lake, other, [write_copy(lake, other, ROWS)], Bookmark(Lsn(1), SYSTEM, 1))
    if of == "released":
        release_table(lake, HISTORY)
    tracked = TrackedLake(lake)
    tracked.put(1, TEXT)
    [stop] = tracked.follower.histories.stops(tracked.follower.tables.all())
    assert stop.reason.endswith("holds another table, which is not this history")
    tracked.copy_again(THINGS, [TEXT], 3)
    assert tracked.as_of(30)[1] == [TEXT]
    assert [str(name) for name in tracked.follower.histories.snapshots([NAME])] == ["public.things_history_2"]


def test_a_lost_epoch_that_is_put_back_as_it_was_answers_again(lake: PlacedLake, tmp_path: Path) -> None:
    tracked = TrackedLake(lake)
    tracked.put(1, ROWS[0])
    shutil.move(lake.disk(HISTORY), tmp_path / "backup")
    tracked.put(2, TEXT)
    tracked.copy_again(THINGS, [TEXT], 4)
    with pytest.raises(HistoryLostError, match=r"public\.things_history cannot be read: it is gone from the lake"):
        tracked.as_of(10)
    shutil.copytree(tmp_path / "backup", lake.disk(HISTORY), dirs_exist_ok=True)
    tracked.restart()
    assert tracked.as_of(10) == (THINGS.column_names, [*ROWS])
    assert tracked.as_of(40)[1] == [TEXT]
    with pytest.raises(HistoryLostError, match="between 0/A and 0/23"):
        tracked.as_of(20)


def test_a_copy_comes_in_parts_of_bounded_size(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "BATCH_BYTES", 40_000)
    monkeypatch.setattr(kept, "FILE_BYTES", 400_000)
    monkeypatch.setattr("cdc.sinks.lake.delta.scan.PART_ROWS", 500)
    many: list[Values] = [{"id": n, "small": n % 7, "big": f"text {n}"} for n in range(30_000)]
    tracked = TrackedLake(lake, rows=many)
    [epoch] = tracked.epochs()
    assert epoch.opened
    rows, files = tracked.rows_of(epoch.opened), epoch.opened.log.snapshot.files
    assert len(rows) == len(many)
    size = sum(file.rows for file in files.values())
    assert size == len(many)
    assert 2 <= len(files) <= 8
    assert 20 < len(set(rows["_batch"].to_pylist())) < 200
    tracked.truncate(1)
    # every key ends, in parts as well
    assert tracked.as_of(10)[1] == []
    assert len(tracked.as_of(9)[1]) == len(many)
    tracked.copy_again(THINGS, many[10:20], 3)
    tracked.copy_again(THINGS, many[15:25], 5)
    assert sorted(row["id"] for row in tracked.as_of(50)[1]) == [*range(15, 25)]
    [epoch] = tracked.epochs()
    assert epoch.opened
    deletes = [row["id"] for row in tracked.rows_of(epoch.opened).to_pylist() if row["_change"] == "delete"]
    assert sorted(deletes) == [*range(10, 15)]
    assert tracked.find_breaks() == [None]
