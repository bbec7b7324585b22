"""What has changed between two cuts is left out of a comparison: each key of it, and no other."""

import re
from pathlib import Path

import pytest

from cdc.columns.rows.documents import documents, key_documents
from cdc.columns.rows.held import Held
from cdc.columns.rows.row_prints import Names, print_names, select_among
from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.run.verify.rolling.comparison import concat_names
from cdc.run.verify.rolling.moved_rows import CUTS_AT_A_TIME, MovedRows
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.metadata import table as metadata_table
from tests.contract.followers import OTHERS
from tests.support.histories import THINGS
from tests.support.lake.places import in_folder
from tests.support.lake.tracked import NAME, TrackedLake


def names(*keys: int) -> Names:
    return print_names(f'{{"id":{key}}}'.encode() for key in keys)


def keys_of(found: Names) -> set[int]:
    return {key for key in range(200) if len(found) and select_among(names(key), found)[0]}


def test_each_key_that_changed_has_moved_and_no_other(tmp_path: Path) -> None:
    lake = TrackedLake(in_folder(tmp_path))
    lake.put(1, {"id": 1, "small": 1, "big": "before"})
    feed = LakeFeed(None, lake.lake)
    moved = MovedRows(feed, THINGS, feed.last_cut(), [None])
    moved.extend()
    assert keys_of(moved.names(None)) == set()
    lake.put(2, {"id": 2, "small": 1, "big": "after"})
    lake.put(3, {"id": 1, "small": 1, "big": "another table's"}, table=OTHERS.name)
    assert moved.extend().position.lsn == 30
    assert keys_of(moved.names(None)) == {2}
    # more cuts than are listed at once
    for number in range(4, 4 + CUTS_AT_A_TIME + 5):
        lake.put(number, {"id": number, "small": 1, "big": "new"})
    moved.extend()
    assert keys_of(moved.names(None)) == {2, *range(4, 4 + CUTS_AT_A_TIME + 5)}


def test_deleted_rows_have_moved_as_each_form_names_them(tmp_path: Path) -> None:
    lake = TrackedLake(in_folder(tmp_path))
    feed = LakeFeed(None, lake.lake)
    other = Held(THINGS, documents, "other", lambda keys, table: key_documents(keys, table).cast("string"))
    moved = MovedRows(feed, THINGS, feed.last_cut(), [None, other])
    lake.truncate(1)
    moved.extend()
    assert keys_of(moved.names(None)) == keys_of(moved.names(other)) == {1, 2}
    assert concat_names([]).shape == (0, 2)


def test_a_table_that_is_copied_again_is_compared_in_another_turn(tmp_path: Path) -> None:
    lake = TrackedLake(in_folder(tmp_path))
    feed = LakeFeed(None, lake.lake)
    moved = MovedRows(feed, THINGS, feed.last_cut(), [None])
    lake.copy_again(THINGS, [{"id": 9, "small": 9, "big": "c"}], 2)
    with pytest.raises(PreconditionError, match=re.escape(f"{THINGS.name} was copied again")):
        moved.extend()


def test_a_row_that_changes_all_the_time_has_one_name(tmp_path: Path) -> None:
    lake = TrackedLake(in_folder(tmp_path))
    feed = LakeFeed(None, lake.lake)
    moved = MovedRows(feed, THINGS, feed.last_cut(), [None])
    for number in range(1, 9):
        lake.put(number, {"id": 2, "small": number, "big": "hot"})
        moved.extend()
    assert moved.names(None).tolist() == names(2).tolist()


def test_cuts_are_read_one_by_one(tmp_path: Path) -> None:
    """What was read stays known, whatever becomes of the next ones."""
    lake = TrackedLake(in_folder(tmp_path))
    feed = LakeFeed(None, lake.lake)
    moved = MovedRows(feed, THINGS, feed.last_cut(), [None])
    for number in (1, 2):
        lake.put(number, {"id": number, "small": 0, "big": "read"})
    before = {*lake.lake.disk(THINGS.name).glob("*.parquet")}
    lake.put(3, {"id": 3, "small": 0, "big": "lost"})
    for path in {*lake.lake.disk(THINGS.name).glob("*.parquet")} - before:
        path.unlink()
    with pytest.raises(HistoryLostError):
        moved.extend()
    assert keys_of(moved.names(None)) == {1, 2}


def test_of_changed_rows_only_what_names_them_is_read(tmp_path: Path) -> None:
    lake = TrackedLake(in_folder(tmp_path))
    feed = LakeFeed(None, lake.lake)
    since = feed.last_cut()
    lake.put(1, {"id": 1, "small": 0, "big": "changed"})
    lake.truncate(2)
    lake.copy(THINGS, [{"id": 7, "small": 0, "big": "copied"}], 25)
    lake.apply(3)
    parts = [*feed.changed_keys(THINGS, since, feed.last_cut())]
    assert {tuple(part.column_names) for part in parts} == {("id",)}
    assert {key for part in parts for key in part["id"].to_pylist()} == {1, 2, 7}


def test_cuts_that_the_lake_has_forgotten_cost_no_follower_a_new_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # of cuts: they are deleted where files are compacted
    monkeypatch.setattr(metadata_table, "COMPACT_AT_FILES", 2)
    lake = TrackedLake(in_folder(tmp_path))
    feed = LakeFeed(None, lake.lake)
    moved = MovedRows(feed, THINGS, feed.last_cut(), [None])
    for number in (1, 2):
        lake.put(number, {"id": 2, "small": number, "big": "a"})
    lake.follower.cuts.maintain(0, None)
    with pytest.raises(PreconditionError, match=f"changed in {NAME} while it was compared → it is compared again"):
        moved.extend()
