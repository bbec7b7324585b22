"""A lake, a table or the cuts put back to an older state, while indexes and followers stay."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc.core.errors import HistoryLostError
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.views.store import ViewStore
from tests.support.histories import THINGS
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables_at import (
    OTHERS,
    TABLES,
    bootstrap_follower,
    copy,
    cut_tables,
    follower_of,
    rows_at,
    rows_in,
    transact,
)

NAMES = [table.name for table in TABLES]


@pytest.fixture
def lake(tmp_path: Path) -> PlacedLake:
    return in_folder(tmp_path)


def back_up(folder: Path, tmp_path: Path) -> Path:
    """Back up a folder."""
    return Path(shutil.copytree(folder, tmp_path / "backup"))


def put_back(folder: Path, backup: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)


def lose_newest(lake: PlacedLake, count: int) -> None:
    """Delete the newest commits of one table."""
    for path in sorted((lake.disk(THINGS.name) / "_delta_log").glob("*.json"))[-count:]:
        path.unlink()


def test_a_table_that_was_put_back_stops_alone_and_is_copied_again(lake: PlacedLake, tmp_path: Path) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    backup = back_up(lake.disk(THINGS.name), tmp_path)
    transact(follower, 20)
    follower.close()
    put_back(lake.disk(THINGS.name), backup)
    follower = follower_of(lake)
    [stop] = follower.check_tables()
    assert stop.copy
    assert (stop.name, stop.reason) == (
        THINGS.name,
        "it was put back to version 1, and the last cut has version 2",
    )
    transact(follower, 30)
    assert cut_tables(lake) == {str(OTHERS.name)}
    assert rows_in(lake, OTHERS) == rows_at("at 30")
    copy(lake, follower, THINGS, 30, "at 30")
    transact(follower, 40)
    assert [rows_in(lake, table) for table in TABLES] == [rows_at("at 40")] * 2
    assert not follower_of(lake).check_tables()


def test_a_put_back_table_with_new_commits_is_recognized(lake: PlacedLake, tmp_path: Path) -> None:
    """The version alone does not show it: another process brought it to the same number."""
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    backup = back_up(lake.disk(THINGS.name), tmp_path)
    transact(follower, 20)
    put_back(lake.disk(THINGS.name), backup)
    log = DeltaLog.open(lake.table_storage(THINGS.name))
    assert log is not None
    log.commit([], "WRITE")
    [stop] = follower_of(lake).check_tables()
    assert stop.reason == "its version 2 is another than the last cut has: it was put back to an older state"


def test_a_table_that_is_put_back_to_its_first_copy_while_followed_is_told_and_copied(lake: PlacedLake) -> None:
    """As by RESTORE. That copy was stopped when the next one was asked for, and its stop was told then."""
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    follower.tables.stop({THINGS.name: "it is to be copied again"}, copy=[THINGS.name])
    copy(lake, follower, THINGS, 20, "at 20")
    transact(follower, 30)
    DeltaTable(str(lake.disk(THINGS.name))).restore(0)
    [told] = transact(follower, 40)
    assert told == "public.things is followed no further than 0/28: it was put back to a copy from before its last one"
    assert [stop.copy for stop in follower.tables.stops()] == [True]
    assert cut_tables(lake) == {str(OTHERS.name)}
    assert transact(follower, 50) == []
    copy(lake, follower, THINGS, 50, "at 50")
    transact(follower, 60)
    assert [rows_in(lake, table) for table in TABLES] == [rows_at("at 60")] * 2


@pytest.mark.parametrize("lost", [1, 2])
def test_losing_the_newest_commits_while_followed_stops_the_table(lake: PlacedLake, lost: int) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    transact(follower, 20)
    lose_newest(lake, lost)
    [stop] = transact(follower, 30)
    assert stop.endswith("version 2 is gone from the lake: removed, or put back to an older state")
    assert cut_tables(lake) == {str(OTHERS.name)}
    copy(lake, follower, THINGS, 30, "at 30")
    transact(follower, 40)
    assert [rows_in(lake, table) for table in TABLES] == [rows_at("at 40")] * 2


def test_putting_a_table_back_while_followed_stops_it(lake: PlacedLake, tmp_path: Path) -> None:
    """Its log has as many versions as before, but others."""
    follower = bootstrap_follower(lake)
    backup = back_up(lake.disk(THINGS.name), tmp_path)
    transact(follower, 10)
    put_back(lake.disk(THINGS.name), backup)
    log = DeltaLog.open(lake.table_storage(THINGS.name))
    assert log is not None
    log.commit([], "WRITE")
    [stop] = transact(follower, 20)
    assert stop.endswith("version 1 is gone from the lake: removed, or put back to an older state")


def test_a_put_back_lake_continues_from_its_last_cut(lake: PlacedLake, tmp_path: Path) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    backup = back_up(lake.files, tmp_path)
    # rows that live in the older state, and that the index has dropped
    for number in range(20, 32):
        transact(follower, number)
    follower.close()
    put_back(lake.files, backup)
    follower = follower_of(lake)
    assert not follower.check_tables()
    assert follower.position() == Position(10, 10, 10)  # type: ignore[arg-type]
    for number in range(20, 33):
        transact(follower, number)
    assert [rows_in(lake, table) for table in TABLES] == [rows_at("at 32")] * 2


def test_put_back_cuts_are_made_again(lake: PlacedLake, tmp_path: Path) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    backup = back_up(lake.files / "_cdc", tmp_path)
    transact(follower, 20)
    put_back(lake.files / "_cdc", backup)
    follower = follower_of(lake)
    assert not follower.check_tables()
    assert follower.highest_offset() == 20
    transact(follower, 20, 30)
    assert [rows_in(lake, table) for table in TABLES] == [rows_at("at 30")] * 2


def test_losing_metadata_tables_while_followed_is_an_error(lake: PlacedLake, tmp_path: Path) -> None:
    follower = bootstrap_follower(lake)
    backup = back_up(lake.files / "_cdc", tmp_path)
    transact(follower, 10)
    put_back(lake.files / "_cdc", backup)
    with pytest.raises(HistoryLostError, match=r"version 2 of .*cuts is gone: .* → start `cdc follow` again"):
        transact(follower, 20)
    follower = follower_of(lake)
    assert follower.highest_offset() == 20
    transact(follower, 10, 20)
    assert [rows_in(lake, table) for table in TABLES] == [rows_at("at 20")] * 2


def test_cuts_at_the_same_end_differ_by_id(lake: PlacedLake, tmp_path: Path) -> None:
    """A follower at the first cut has that cut's content."""
    follower = bootstrap_follower(lake)
    backup = back_up(lake.files, tmp_path)
    transact(follower, 10)
    first = follower.position()
    assert first is not None
    assert LakeFeed(None, lake).find_cut(Position.from_json(first.as_json())) is not None
    put_back(lake.files, backup)
    feed = LakeFeed(None, lake)
    with pytest.raises(
        HistoryLostError, match=r"no cut at offset 10, its newest is at -1: .* put back to an older state"
    ):
        feed.require_cut(first)
    transact(follower_of(lake), 10)
    with pytest.raises(HistoryLostError, match=r"no cut at offset 10 any more: .* → `cdc bootstrap` fills it anew"):
        feed.require_cut(first)


def test_who_holds_views_from_now_on_followed_no_other_lake(lake: PlacedLake, tmp_path: Path) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    stands = follower.position()
    assert stands is not None
    transact(follower, 20)
    store, last = ViewStore(lake, tmp_path / "index"), LakeFeed(None, lake).last_cut()
    store.cuts.prepare()
    store.add_cut(last)
    feed = LakeFeed(None, lake, with_views=True)
    with pytest.raises(
        HistoryLostError, match="views from now on, and no cut with views is at its offset 10 → `cdc boo"
    ):
        feed.require_cut(stands)
    assert feed.require_cut(last.position).position == last.position


def test_a_running_follower_refuses_cuts_of_another_history(lake: PlacedLake, tmp_path: Path) -> None:
    """Its versions belong to another history."""
    follower = bootstrap_follower(lake)
    backup = back_up(lake.files, tmp_path)
    transact(follower, 10)
    feed = LakeFeed(None, lake)
    stands = feed.last_cut()
    transact(follower, 20)
    assert [cut.position.end_offset for cut in feed.cuts_after(stands, 9)] == [20]
    put_back(lake.files, backup)
    follower = follower_of(lake)
    feed = LakeFeed(None, lake)
    assert feed.cuts_after(stands, 9) == []
    transact(follower, 10, 20)
    with pytest.raises(HistoryLostError, match="no cut at offset 10 any more"):
        feed.cuts_after(stands, 9)


def test_split_readable_separates_unreadable_tables(lake: PlacedLake) -> None:
    """Tables that do not fit the follower are in neither list."""
    transact(bootstrap_follower(lake), 10)
    feed = LakeFeed(None, lake)
    readable, unread = feed.split_readable(feed.last_cut())
    assert ([*map(_name, readable)], unread) == (sorted(map(str, NAMES)), [])
    lose_newest(lake, 1)
    readable, unread = LakeFeed(None, lake).split_readable(feed.last_cut())
    assert ([*map(_name, readable)], unread) == ([str(OTHERS.name)], [THINGS.name])
    fitting = LakeFeed(None, lake, fits=lambda table: table.name != OTHERS.name)
    assert fitting.split_readable(feed.last_cut()) == ([], [THINGS.name])
    assert feed.split_readable(feed.last_cut(), but=NAMES) == ([], [])


def _name(entry: tuple[Table, Bookmark]) -> str:
    return str(entry[0].name)


def test_a_removed_table_stops_alone(lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    shutil.rmtree(lake.disk(THINGS.name))
    follower = follower_of(lake)
    [stop] = follower.check_tables()
    assert (stop.name, stop.reason, stop.copy) == (THINGS.name, "it is gone from the lake", True)
    assert not transact(follower, 20)
    assert cut_tables(lake) == {str(OTHERS.name)}
    copy(lake, follower, THINGS, 20, "at 20")
    transact(follower, 30)
    assert [rows_in(lake, table) for table in TABLES] == [rows_at("at 30")] * 2
