"""A damaged or missing file stops its table alone; the error names both, and a new copy repairs the table."""

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc.core.errors import CdcError
from cdc.core.table import Table
from cdc.sinks.lake.delta import checkpoint
from cdc.sinks.lake.delta.checkpoint import take_due_checkpoint, write_checkpoint
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.delta.retention import Retention, vacuum
from cdc.sinks.lake.storage.object_store import ObjectStore
from cdc.sinks.lake.table import maintenance
from cdc.sinks.lake.table.load import prepare_folder
from tests.support.histories import THINGS
from tests.support.lake.damage import Damage
from tests.support.lake.places import PLACES, PlacedLake, in_folder, place_lake
from tests.support.lake.tables import read_by_delta_rs
from tests.support.lake.tables_at import (
    KEYS,
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

Harm = Callable[[Path], None]


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_bits(path: Path) -> None:
    path.write_bytes(Damage("flip many", 0, 5, 1).apply_to(path.read_bytes()))


HARMS = [
    pytest.param(cut_off, id="cut off"),
    pytest.param(flip_bits, id="damaged"),
    pytest.param(Path.unlink, id="gone"),
]


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    return place_lake(request, tmp_path)


@pytest.fixture
def folder_lake(tmp_path: Path) -> PlacedLake:
    return in_folder(tmp_path)


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda path: (path.stat().st_mtime_ns, path.name))


def check_recopied(lake: PlacedLake) -> None:
    """The other table went on; a new copy of this one joins, and all readers see its rows."""
    assert cut_tables(lake) == {str(OTHERS.name)}
    assert rows_in(lake, OTHERS) == rows_at("at 30")
    follower = follower_of(lake)
    prepare_folder(lake, THINGS.name)
    copy(lake, follower, THINGS, 30, "at 30")
    transact(follower, 40)
    assert [rows_in(lake, table) for table in TABLES] == [rows_at("at 40")] * 2
    assert {values["big"] for values in read_by_delta_rs(lake).values()} == {"at 40"}
    assert not follower_of(lake).check_tables()


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("pattern", ["deletion_vector_*.bin", "*.parquet"])
def test_a_damaged_file_stops_its_table_alone(
    lake: PlacedLake, harm: Harm, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as a large one is
    monkeypatch.setattr(ObjectStore, "vectors_in_log_bytes", 0)
    follower = bootstrap_follower(lake)
    transact(follower, 10, only=KEYS[:5])
    file = newest(lake.disk(THINGS.name), pattern)
    harm(file)
    # without an index, all files are read
    [stop] = transact(follower_of(lake), 30)
    assert stop.startswith("public.things is followed no further than 0/A: ")
    assert f"file {file.name} of the lake is " in stop
    check_recopied(lake)


@pytest.mark.parametrize("harm", [*HARMS[:2]])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_damaged_commit_stops_its_table_alone(lake: PlacedLake, harm: Harm, which: int) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    transact(follower, 20)
    name = f"_delta_log/{which:020}.json"
    harm(lake.disk(THINGS.name) / name)
    follower = follower_of(lake)
    [stop] = follower.check_tables()
    assert stop.copy
    assert f"{name} is damaged" in stop.reason
    assert not transact(follower, 30)
    check_recopied(lake)


def test_a_commit_damaged_while_followed_stops_its_table(folder_lake: PlacedLake) -> None:
    """Another writer's commit: ours is in memory."""
    follower = bootstrap_follower(folder_lake)
    transact(follower, 10)
    path = folder_lake.disk(THINGS.name) / f"_delta_log/{2:020}.json"
    path.write_text("{")
    [stop] = transact(follower, 30)
    assert f"{path} is damaged" in stop
    check_recopied(folder_lake)


def test_a_gap_in_a_log_stops_its_table_alone(lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake)
    for number in (10, 20):
        transact(follower, number)
    (lake.disk(THINGS.name) / f"_delta_log/{1:020}.json").unlink()
    follower = follower_of(lake)
    [stop] = follower.check_tables()
    assert "has a gap" in stop.reason
    transact(follower, 30)
    check_recopied(lake)


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_checkpoint_is_skipped_and_rewritten(folder_lake: PlacedLake, harm: Harm) -> None:
    lake, follower = folder_lake, bootstrap_follower(folder_lake)
    for number in range(10, 15):
        transact(follower, number)
    DeltaTable(lake.folder(THINGS.name)).create_checkpoint()
    transact(follower, 15)
    newest_one = newest(lake.disk(THINGS.name) / "_delta_log", "*.checkpoint.parquet")
    harm(newest_one)
    follower = follower_of(lake)
    assert not follower.check_tables()
    transact(follower, 20)
    assert rows_in(lake, THINGS) == rows_at("at 20")
    log = DeltaLog.open(lake.table_storage(THINGS.name))
    assert log is not None
    # the commits that it stood for stay as long as nothing else stands for them
    vacuum(log, Retention(0, log.snapshot.version))
    due = take_due_checkpoint(log, 0)
    assert due is not None
    write_checkpoint(log, due)
    assert not newest_one.exists()
    vacuum(log, Retention(0, log.snapshot.version))
    assert {values["big"] for values in read_by_delta_rs(lake).values()} == {"at 20"}
    again = DeltaLog.open(lake.table_storage(THINGS.name))
    assert again is not None
    assert not again.damaged


def test_a_log_with_only_a_damaged_checkpoint_is_replaced_by_a_copy(folder_lake: PlacedLake) -> None:
    lake, follower = folder_lake, bootstrap_follower(folder_lake)
    for number in range(10, 15):
        transact(follower, number)
    DeltaTable(lake.folder(THINGS.name)).create_checkpoint()
    folder = lake.disk(THINGS.name) / "_delta_log"
    for commit in sorted(folder.glob("*.json"))[:-1]:
        commit.unlink()
    cut_off(newest(folder, "*.checkpoint.parquet"))
    follower = follower_of(lake)
    [stop] = follower.check_tables()
    assert "is not whole" in stop.reason
    transact(follower, 30)
    check_recopied(lake)


def test_maintenance_of_other_tables_goes_on(folder_lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, follower = folder_lake, bootstrap_follower(folder_lake)
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 1)
    monkeypatch.setattr(maintenance, "MAX_DEAD_SHARE", 0.01)
    monkeypatch.setattr(maintenance, "TINY_BYTES", 0)
    transact(follower, 10, only=KEYS[:5])
    follower = follower_of(lake)
    transact(follower, 20, only=KEYS[:5])
    for file in lake.disk(THINGS.name).glob("*.parquet"):
        cut_off(file)
    with pytest.raises(Exception, match=r"public\.things: file .* of the lake is damaged"):
        follower.maintenance.run([])
    assert [*(lake.disk(OTHERS.name) / "_delta_log").glob("*.checkpoint.parquet")]


def put_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("harm", [cut_off, put_folder], ids=["damaged", "unreadable"])
@pytest.mark.parametrize(("table", "other"), [TABLES, TABLES[::-1]], ids=["first", "last"])
def test_an_old_commit_that_is_damaged_keeps_no_other_table_from_its_upkeep(
    folder_lake: PlacedLake, monkeypatch: pytest.MonkeyPatch, harm: Harm, table: Table, other: Table
) -> None:
    """Neither a table behind it nor the cuts, the last in a round."""
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 1)
    monkeypatch.setattr("cdc.sinks.lake.metadata.table.COMPACT_AT_FILES", 3)
    follower = bootstrap_follower(folder_lake)
    transact(follower, 10, only=KEYS[:5])
    follower.maintenance.run([])
    follower = follower_of(folder_lake)
    for number in (20, 30):
        transact(follower, number, only=KEYS[:5])
    harm(folder_lake.disk(table.name) / "_delta_log" / f"{1:020}.json")
    with pytest.raises((CdcError, OSError), match=f"{1:020}.json"):
        follower.maintenance.run([])
    assert [*(folder_lake.disk(other.name) / "_delta_log").glob(f"{3:020}.checkpoint.parquet")]
    assert len([*Path(follower.cuts.folder).glob("*.parquet")]) == 5
