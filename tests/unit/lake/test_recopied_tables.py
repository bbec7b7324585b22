"""A table copied again beside others: its missing changes, its followers' view, and its past."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.batch import DecodedBatch
from cdc.columns.netting.ends import to_columns
from cdc.core.errors import PreconditionError
from cdc.core.position import Bookmark, Lsn, Position
from cdc.core.table import Column, Kind, Table, TableName
from cdc.core.table_state import Followed, Joining
from cdc.core.transaction import TransactionEnd
from cdc.sinks.lake.delta import checkpoint
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.settings import DeltaSettings
from cdc.sinks.lake.table.load import prepare_folder
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables import write_copy
from tests.support.model import Row

THINGS = Table(TableName("public", "things"), (Column("id", Kind.INTEGER), Column("was", Kind.TEXT)), ("id",))
OTHER = Table(THINGS.name, (Column("id", Kind.INTEGER), Column("now", Kind.BIGINT)), ("id",))


@pytest.fixture
def lake(tmp_path: Path) -> PlacedLake:
    return in_folder(tmp_path)


def follower_of(lake: PlacedLake) -> DeltaFollower:
    follower = DeltaFollower(
        DeltaSettings(kind="delta", path=lake.path, retention_hours=0), lake, lake.indexes / "index"
    )
    follower.prepare([THINGS])
    return follower


def load(lake: PlacedLake, follower: DeltaFollower, table: Table, lsn: int, row: Row) -> None:
    follower.load(table, [write_copy(lake, table, [row])], Bookmark(Lsn(lsn), 4711, 1))
    follower.tables.forget([table.name])


def commit(follower: DeltaFollower, lsn: int) -> None:
    """Bring all tables to this LSN by a transaction on another table."""
    ends = to_columns([TransactionEnd(lsn, lsn, Lsn(lsn), 0, {})])
    follower.apply(DecodedBatch(ends, {}), Position(lsn, Lsn(lsn), lsn))


def follow_at_20(lake: PlacedLake) -> DeltaFollower:
    """A follower whose table is in a cut at 20."""
    follower = follower_of(lake)
    load(lake, follower, THINGS, 10, {"id": 1, "was": "a"})
    commit(follower, 20)
    return follower


def stop_table(follower: DeltaFollower) -> None:
    follower.tables.stop({THINGS.name: "its schema has changed"}, [THINGS.name])


def test_each_new_copy_lacks_the_changes_since_its_snapshot(lake: PlacedLake) -> None:
    follower = follow_at_20(lake)
    for lsn in (40, 60):
        stop_table(follower)
        commit(follower, lsn)
        load(lake, follower, THINGS, lsn - 5, {"id": 1, "was": "b"})
        assert [*follower.tables.select(Joining)] == [THINGS.name]
        follower.tables.adopt(follower.tables.select(Joining))
        assert not follower.tables.select(Joining)
        commit(follower, lsn + 1)
    assert LakeFeed(None, lake).last_cut().versions.keys() == {"public.things"}


def test_a_table_that_stops_while_catching_up_joins_no_cut(lake: PlacedLake) -> None:
    follower = follow_at_20(lake)
    stop_table(follower)
    load(lake, follower, THINGS, 15, {"id": 1, "was": "b"})
    late = follower.tables.select(Joining)
    stop_table(follower)
    follower.tables.adopt(late)
    load(lake, follower, OTHER, 18, {"id": 1, "now": 2})
    assert [*follower.tables.select(Joining)] == [THINGS.name]


def test_feed_describes_tables_with_the_columns_of_the_cut(lake: PlacedLake) -> None:
    follower = follow_at_20(lake)
    stood = follower.position()
    assert stood is not None
    stop_table(follower)
    commit(follower, 30)
    load(lake, follower, OTHER, 35, {"id": 1, "now": 2})
    follower.tables.adopt(follower.tables.select(Joining))
    commit(follower, 40)
    feed = LakeFeed(None, lake)
    cuts = feed.cuts_after(feed.require_cut(stood), 10)
    assert [[table for table, _ in feed.tables(cut)] for cut in cuts] == [[], [OTHER]]
    assert [*feed.tables(feed.require_cut(stood))] == [(THINGS, Bookmark(Lsn(10), 4711, 1))]
    assert feed.tables(feed.last_cut()) == [(OTHER, Bookmark(Lsn(35), 4711, 1))]


def test_a_feed_looks_once_at_a_table_that_is_the_same_in_the_next_cut(
    lake: PlacedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = follow_at_20(lake)
    looks = list[TableName]()
    look = LakeFeed._log

    def count(feed: LakeFeed, name: TableName) -> DeltaLog | None:
        looks.append(name)
        return look(feed, name)

    monkeypatch.setattr(LakeFeed, "_log", count)
    feed = LakeFeed(None, lake)
    before = feed.last_cut()
    for lsn in (30, 40):
        commit(follower, lsn)
        cut = feed.last_cut()
        assert [table for table, _ in feed.tables(cut)] == [THINGS]
        assert feed.change_bytes(THINGS, before, cut) == 0
    assert looks == [THINGS.name]
    # a copy of it would fail if it is gone meanwhile
    assert feed.split_readable(cut) == ([(THINGS, Bookmark(Lsn(10), 4711, 1))], [])
    assert looks == [THINGS.name] * 2
    load(lake, follower, OTHER, 50, {"id": 1, "now": 2})
    follower.tables.adopt(follower.tables.select(Joining))
    commit(follower, 60)
    assert feed.tables(feed.last_cut()) == [(OTHER, Bookmark(Lsn(50), 4711, 1))]


def test_maintenance_vacuums_a_table_in_no_cut(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 4)
    follower = follower_of(lake)
    for lsn in range(10, 31):
        load(lake, follower, THINGS, lsn, {"id": 1, "was": "a"})
    commit(follower, 400)
    follower.maintenance.run([])
    stop_table(follower)
    commit(follower, 500)
    commits = lake.disk(THINGS.name) / "_delta_log"
    assert not (commits / f"{1:020}.json").exists()
    again = follower_of(lake)
    load(lake, again, THINGS, 450, {"id": 1, "was": "b"})
    assert again.tables.select(Joining)
    again.maintenance.run([])
    assert again.tables.select(Joining)
    # nor where a follower stands at a cut without it
    commit(again, 600)
    again.maintenance.run([Position(500, Lsn(500), 500)])


def test_letters_of_a_joining_table_are_not_replayed(lake: PlacedLake) -> None:
    follower = follow_at_20(lake)
    stop_table(follower)
    commit(follower, 30)
    load(lake, follower, THINGS, 25, {"id": 1, "was": "b"})
    with pytest.raises(PreconditionError, match="is in no cut of the lake yet"):
        follower.letters.replay(THINGS.name, Decoder(THINGS, "unavailable"))


def test_a_table_joins_only_after_adoption(lake: PlacedLake) -> None:
    follower = follow_at_20(lake)
    stop_table(follower)
    commit(follower, 30)
    load(lake, follower, OTHER, 35, {"id": 1, "now": 2})
    assert not follower.tables.select(Followed)
    # the batch was read without it, and may have changes of it from behind its copy
    commit(follower, 40)
    assert [*follower.tables.select(Joining)] == [OTHER.name]
    follower.tables.adopt(follower.tables.select(Joining))
    assert [*follower.tables.select(Followed)] == [OTHER.name]


@pytest.mark.parametrize("stops", [False, True], ids=["it goes on", "it stops again"])
def test_a_lagging_follower_gets_a_joined_table_as_of_its_first_cut(lake: PlacedLake, *, stops: bool) -> None:
    first = Table(TableName("public", "first"), THINGS.columns, ("id",))
    follower = follower_of(lake)
    follower.prepare([first])
    follower.load(first, [write_copy(lake, first, [{"id": 1, "was": "a"}])], Bookmark(Lsn(5), 4711, 1))
    commit(follower, 20)
    stands = follower.position()
    assert stands is not None
    load(lake, follower, THINGS, 25, {"id": 1, "was": "a"})
    follower.tables.adopt(follower.tables.select(Joining))
    commit(follower, 30)
    if stops:
        stop_table(follower)
        commit(follower, 40)
    load(lake, follower, THINGS, 35, {"id": 1, "was": "b"})
    follower.maintenance.run([stands])
    feed = LakeFeed(None, lake)
    joined = next(cut for cut in feed.cuts_after(feed.require_cut(stands), 10) if str(THINGS.name) in cut.versions)
    then = DeltaLog.open(lake.table_storage(THINGS.name), joined.versions[str(THINGS.name)])
    assert then is not None
    (file,) = then.snapshot.files.values()
    assert pa.concat_tables(live_rows(lake.table_storage(THINGS.name), Share(file), THINGS)).to_pylist() == [
        {"id": 1, "was": "a"}
    ]


def test_abandoned_copied_files_are_deleted_after_a_day(lake: PlacedLake) -> None:
    for _ in range(2):
        write_copy(lake, THINGS, [{"id": 1, "was": "a"}])
    old, recent = lake.disk(THINGS.name).glob("copy-*")
    os.utime(old, (0, 0))
    prepare_folder(lake, THINGS.name)
    assert [*lake.disk(THINGS.name).glob("copy-*")] == [recent]
    follower = follow_at_20(lake)
    before = {*lake.disk(THINGS.name).glob("copy-*")}
    prepare_folder(lake, THINGS.name)
    assert {*lake.disk(THINGS.name).glob("copy-*")} == before
    assert [*follower.tables.select(Followed)] == [THINGS.name]
