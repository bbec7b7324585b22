"""What a table keeps of its past is bounded by time, and what is held in memory and written for it does not grow."""

import gc
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from cdc.core import model
from cdc.core.change import Key, Row
from sinks.lake.delta import checkpoint, retention
from sinks.lake.delta.checkpoint import take_due_checkpoint, write_checkpoint
from sinks.lake.delta.log import DeltaLog
from sinks.lake.delta.retention import Retention, vacuum
from sinks.lake.delta.snapshot import Action, now_ms
from sinks.lake.delta.tombstones import LIVED_MS, Tombstones
from sinks.lake.table.compact import compact_files
from sinks.lake.table.maintenance import maintain
from sinks.lake.table.writer import TableWriter
from tests.core.histories import THINGS
from tests.lake.places import PLACES, PlacedLake, in_folder, placed
from tests.lake.tables import apply, by_key, copied, expected, opened, read_by_delta_rs, row, update
from tests.lake.test_write import mixed

COPY: dict[Key, Row] = {(n,): row(n, f"old {n}") for n in range(300)}
ALL = Retention(1000, 0)


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    made = placed(request, tmp_path)
    copied(made, THINGS, list(COPY.values()), files=2)
    return made


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 5)


def checkpointed(writer: TableWriter) -> Path:
    """Write a checkpoint of the table as it is; where its rows lie."""
    write_checkpoint(writer.log, checkpoint.build_checkpoint(writer.log))
    return Path("_delta_log", f"{writer.snapshot.version:020}.checkpoint.parquet")


def changed(writer: TableWriter, ranks: range) -> dict[Key, Row]:
    rows = dict(COPY)
    for rank in ranks:
        changes = mixed(5, rank, rows)
        apply(writer, changes, rank)
        rows = model.apply(rows, changes)
    return rows


def test_a_checkpoint_is_the_table(lake: PlacedLake, spark: SparkSession) -> None:
    """Readers have it alone, without the commits that it stands for."""
    writer = opened(lake)
    rows = changed(writer, range(1, 8))
    version = checkpointed(writer).name[:20]
    for commit in (lake.disk(THINGS.name) / "_delta_log").glob("*.json"):
        if commit.stem < version:
            commit.unlink()
    assert read_by_delta_rs(lake) == expected(rows)
    frame = lake.for_spark(spark).read.format("delta").load(lake.folder(THINGS.name))
    assert by_key([found.asDict() for found in frame.collect()]) == expected(rows)
    again = opened(lake, index="again")
    assert (again.snapshot.files, again.snapshot.transactions) == (writer.snapshot.files, writer.snapshot.transactions)
    assert again.snapshot.metadata["schemaString"] == writer.snapshot.metadata["schemaString"]
    assert again.snapshot.configuration == writer.snapshot.configuration


def test_nothing_grows_with_the_past_that_is_kept(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    copied(lake, THINGS, list(COPY.values()), files=2)
    writer, sizes, objects = opened(lake), list[int](), list[int]()
    for rank in range(1, 121):
        apply(writer, update(rank, row(rank % 50, f"x {rank}"), row(200 + rank % 50, f"y {rank}")), rank)
        maintain(writer, ALL)
        if rank % 40 == 0:
            sizes.append(pq.read_metadata(lake.disk(THINGS.name) / checkpointed(writer)).num_rows)
            gc.collect()
            objects.append(len(gc.get_objects()))
    # a row for each vector, file and commit that went would be hundreds
    assert max(sizes) < 40
    # of 40 commits, a few checkpoints are remembered
    assert objects[2] - objects[1] < 40


def test_a_vectors_file_stays_as_long_as_one_of_its_vectors_is_needed(tmp_path: Path) -> None:
    """Two files' vectors lie in one; the first goes, and those who read the past need the second."""
    lake = in_folder(tmp_path)
    copied(lake, THINGS, list(COPY.values()), files=2)
    writer, folder = opened(lake), lake.disk(THINGS.name)
    apply(writer, update(1, row(5, "x"), row(250, "x")), 1)
    [together] = {file.vector.path for file in writer.snapshot.files.values() if file.vector}
    apply(writer, update(2, row(6, "x")), 2)
    checkpointed(writer)
    since = writer.snapshot.version
    apply(writer, update(3, row(251, "x")), 3)
    checkpointed(writer)
    vacuum(writer.log, Retention(0, since))
    assert (folder / together).exists()
    then = DeltaTable(lake.folder(THINGS.name), since, dict(lake.options))
    assert QueryBuilder().register("t", then).execute("SELECT id FROM t").read_all().num_rows == len(COPY)
    vacuum(writer.log, Retention(0, writer.snapshot.version))
    assert not (folder / together).exists()


def test_killed_while_it_forgets_it_goes_on(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, folder = opened(lake), lake.disk(THINGS.name)
    rows = changed(writer, range(1, 12))
    checkpointed(writer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "live_paths", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            vacuum(writer.log, Retention(0, writer.snapshot.version))
    # some of the commits went, the first among them
    for version in (0, 3):
        (folder / "_delta_log" / f"{version:020}.json").unlink()
    again = opened(lake, index="again")
    assert vacuum(again.log, Retention(0, again.snapshot.version)) > 0
    assert {path.name for path in folder.glob("*.parquet")} == set(again.snapshot.files)
    assert read_by_delta_rs(lake) == expected(rows)


def test_what_a_table_that_rests_has_replaced_goes_too(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last commits are few: nobody would ever make a checkpoint behind them."""
    monkeypatch.setattr(checkpoint, "IDLE_MS", 0)
    writer, folder = opened(lake), lake.disk(THINGS.name)
    assert compact_files(writer, list(writer.snapshot.files))
    monkeypatch.setattr(checkpoint, "now_ms", lambda: now_ms() + 1000)
    assert take_due_checkpoint(writer.log, now_ms() - 3_600_000) is None
    maintain(writer, Retention(0, writer.snapshot.version))
    assert {path.name for path in folder.glob("*.parquet")} == set(writer.snapshot.files)
    version = writer.log.checkpoint
    maintain(writer, Retention(0, writer.snapshot.version))
    assert writer.log.checkpoint == version


def test_another_processs_checkpoints_are_known(lake: PlacedLake) -> None:
    writer = opened(lake)
    changed(writer, range(1, 7))
    DeltaTable(lake.folder(THINGS.name), storage_options=dict(lake.options)).create_checkpoint()
    assert vacuum(writer.log, Retention(0, writer.snapshot.version)) > 0
    assert not (lake.disk(THINGS.name) / "_delta_log" / f"{0:020}.json").exists()


def commit(at: int, *actions: Action) -> list[Action]:
    return [{"commitInfo": {"timestamp": at}}, *actions]


def added(path: str, vector: int = 0) -> Action:
    return {"add": {"path": path, "deletionVector": _vector(vector)}}


def gone(path: str, at: int, vector: int = 0) -> Action:
    return {"remove": {"path": path, "deletionTimestamp": at, "deletionVector": _vector(vector)}}


def _vector(number: int) -> Action | None:
    return {"storageType": "u", "pathOrInlineDv": f"v{number}", "offset": 1} if number else None


def test_tombstones_are_of_what_lived_long() -> None:
    tombstones, late = Tombstones(), LIVED_MS + 2
    tombstones.add_commit(commit(1, added("a"), added("b")))
    tombstones.add_commit(commit(2, gone("b", 2), added("b", vector=1)))
    assert tombstones.all() == []
    # a vector of ten minutes, and one of a moment
    tombstones.add_commit(commit(late + 2, gone("b", late + 1, vector=1), added("b", vector=2)))
    tombstones.add_commit(commit(late + 2, gone("b", late + 1, vector=2), gone("a", late + 1)))
    # one of which nobody knows when it came
    tombstones.add_commit(commit(late + 2, gone("c", late + 2)))
    assert [each["remove"]["path"] for each in tombstones.all()] == ["b", "a", "c"]
    tombstones.forget(late + 1)
    assert [each["remove"]["path"] for each in tombstones.all()] == ["c"]


def test_a_checkpoint_carries_tombstones_on(lake: PlacedLake) -> None:
    writer = opened(lake)
    before = set(writer.snapshot.files)
    assert compact_files(writer, list(writer.snapshot.files))
    # the copy came this moment: as if it had been there for long
    writer.log.tombstones.restore(file for file in _removes(writer.log))
    checkpointed(writer)
    again = opened(lake, index="again")
    assert {each["remove"]["path"] for each in again.log.tombstones.all()} == before


def _removes(log: DeltaLog) -> list[Action]:
    return [action for action in log.actions(log.snapshot.version) if "remove" in action]
