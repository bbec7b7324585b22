"""A table at a cut, with what is committed behind the cut and moves no position: seen at once, not at the next cut."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from cdc.columns.feed import FeedRows
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Table
from cdc.sinks.lake.delta.actions import Txn
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.feed.keyed_rows import key_schema
from cdc.sinks.lake.feed.patch import patch_rows
from cdc.sinks.lake.feed.standing import find_standing
from cdc.sinks.lake.follower import DeltaFollower
from tests.support.histories import THINGS
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables_at import OTHERS, bootstrap_follower, copy, follower_of, transact

NAME = str(THINGS.name)


@pytest.fixture
def lake(tmp_path: Path) -> PlacedLake:
    return in_folder(tmp_path)


@pytest.fixture
def follower(lake: PlacedLake) -> DeltaFollower:
    return bootstrap_follower(lake)


def lose_row(lake: PlacedLake, key: int, table: Table = THINGS) -> None:
    """Take a row away, as somebody who moves no position: another process has the follower's own view of it."""
    found = follower_of(lake).tables.find(table.name)
    assert found is not None
    gone = pa.Table.from_pylist([{"id": key}], key_schema(table))
    rows = FeedRows(arrow_schema(table).empty_table(), gone)
    assert not patch_rows(found.writer, rows, found.writer.snapshot.version, lake.app_id, anew=True)


def commit_to(lake: PlacedLake, *actions: Txn) -> None:
    log = DeltaLog.open(lake.table_storage(THINGS.name))
    assert log is not None
    log.commit(actions, "WRITE")


def keys_in(lake: PlacedLake) -> set[int]:
    """The keys of the table as it stands at the newest cut."""
    feed = LakeFeed(None, lake)
    parts = [part["id"].to_pylist() for part in feed.read(THINGS, feed.stand(THINGS.name))]
    return {key for part in parts for key in part}


def versions_behind(lake: PlacedLake) -> int:
    """How many versions behind that of the newest cut the table stands."""
    cut = LakeFeed(None, lake).last_cut()
    return find_standing(lake, THINGS.name, cut).versions[NAME] - cut.versions[NAME]


@pytest.mark.parametrize("batches", [0, 2])
def test_a_lost_row_is_missing_at_once(lake: PlacedLake, follower: DeltaFollower, batches: int) -> None:
    for number in range(batches):
        transact(follower, 10 * (number + 1))
    assert 7 in keys_in(lake)
    lose_row(lake, 7)
    assert 7 not in keys_in(lake)
    lose_row(lake, 8)
    assert {7, 8} & keys_in(lake) == set()
    assert versions_behind(lake) == 2


def test_another_table_s_versions_stay(lake: PlacedLake, follower: DeltaFollower) -> None:
    transact(follower, 10)
    lose_row(lake, 7, OTHERS)
    cut = LakeFeed(None, lake).last_cut()
    assert find_standing(lake, THINGS.name, cut) is cut


def test_a_later_batch_is_not_of_an_older_cut(lake: PlacedLake, follower: DeltaFollower) -> None:
    transact(follower, 10)
    before = LakeFeed(None, lake).last_cut()
    lose_row(lake, 7)
    transact(follower, 20)
    lose_row(lake, 8)
    stands = find_standing(lake, THINGS.name, before)
    assert stands.versions[NAME] == before.versions[NAME] + 1
    assert versions_behind(lake) == 1


def test_a_batch_without_its_cut_yet_is_not_of_the_cut(lake: PlacedLake, follower: DeltaFollower) -> None:
    transact(follower, 10)
    commit_to(lake, Txn(lake.app_id, 20))
    lose_row(lake, 7)
    assert versions_behind(lake) == 0


def test_a_new_copy_is_not_of_the_cut(lake: PlacedLake, follower: DeltaFollower) -> None:
    transact(follower, 10)
    before = LakeFeed(None, lake).last_cut()
    copy(lake, follower, THINGS, 20, "copied again")
    assert find_standing(lake, THINGS.name, before).versions[NAME] == before.versions[NAME]


def test_a_stranger_s_own_transactions_are_no_position(lake: PlacedLake, follower: DeltaFollower) -> None:
    transact(follower, 10)
    commit_to(lake, Txn("somebody's job", 2**40))
    assert versions_behind(lake) == 1


def test_a_view_of_an_older_cut_is_as_that_cut_has_it(lake: PlacedLake, follower: DeltaFollower) -> None:
    """Versions behind it have rows of later cuts, which may be at this position."""
    transact(follower, 10)
    cut = replace(LakeFeed(None, lake).last_cut(), as_of={NAME: 0})
    lose_row(lake, 7)
    assert find_standing(lake, THINGS.name, cut) is cut


def test_another_history_of_the_table_is_not_of_the_cut(lake: PlacedLake, follower: DeltaFollower) -> None:
    transact(follower, 10)
    cut = LakeFeed(None, lake).last_cut()
    lose_row(lake, 7)
    other = replace(cut, commits={**cut.commits, NAME: "of another past"})
    assert find_standing(lake, THINGS.name, other) is other


def test_a_table_whose_log_cannot_be_read_is_left_to_its_reader(lake: PlacedLake, follower: DeltaFollower) -> None:
    transact(follower, 10)
    cut = LakeFeed(None, lake).last_cut()
    for path in (lake.disk(THINGS.name) / "_delta_log").glob("*.json"):
        path.write_text("{")
    assert find_standing(lake, THINGS.name, cut) is cut
