"""A table's past is bounded by time; memory and checkpoints do not grow with it."""

import gc
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from cdc.sinks.lake.delta import checkpoint, log, retention
from cdc.sinks.lake.delta.actions import Action, Add, CommitInfo, Remove, of_type
from cdc.sinks.lake.delta.checkpoint import take_due_checkpoint, write_checkpoint
from cdc.sinks.lake.delta.deletion_vectors import VectorDescriptor
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.delta.retention import Retention, vacuum
from cdc.sinks.lake.delta.snapshot import now_ms
from cdc.sinks.lake.delta.tombstones import LIVED_MS, Tombstones
from cdc.sinks.lake.table.compact import compact_files
from cdc.sinks.lake.table.maintenance import maintain
from cdc.sinks.lake.table.writer import TableWriter
from tests.support import model
from tests.support.histories import THINGS
from tests.support.lake.mixed_changes import mix_changes
from tests.support.lake.places import PLACES, PlacedLake, in_folder, place_lake
from tests.support.lake.tables import apply, by_id, by_key, copy_rows, open_writer, read_by_delta_rs, row, update
from tests.support.model import Key, Row

COPY: dict[Key, Row] = {(n,): row(n, f"old {n}") for n in range(300)}
ALL = Retention(1000, 0)


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    made = place_lake(request, tmp_path)
    copy_rows(made, THINGS, list(COPY.values()), files=2)
    return made


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 5)


def write_full_checkpoint(writer: TableWriter) -> Path:
    """Write a checkpoint of the table as it is; returns the path of its rows."""
    write_checkpoint(writer.log, checkpoint.build_checkpoint(writer.log))
    return Path("_delta_log", f"{writer.snapshot.version:020}.checkpoint.parquet")


def change_rows(writer: TableWriter, ranks: range) -> dict[Key, Row]:
    rows = dict(COPY)
    for rank in ranks:
        changes = mix_changes(5, rank, rows)
        apply(writer, changes, rank)
        rows = model.apply(rows, changes)
    return rows


def test_a_checkpoint_alone_restores_the_table(lake: PlacedLake, spark: SparkSession) -> None:
    """Readers can use it alone, without the commits before it."""
    writer = open_writer(lake)
    rows = change_rows(writer, range(1, 8))
    version = write_full_checkpoint(writer).name[:20]
    for commit in (lake.disk(THINGS.name) / "_delta_log").glob("*.json"):
        if commit.stem < version:
            commit.unlink()
    assert read_by_delta_rs(lake) == by_id(rows)
    frame = lake.for_spark(spark).read.format("delta").load(lake.folder(THINGS.name))
    assert by_key([record.asDict() for record in frame.collect()]) == by_id(rows)
    again = open_writer(lake, index="again")
    assert (again.snapshot.files, again.snapshot.transactions) == (writer.snapshot.files, writer.snapshot.transactions)
    assert again.snapshot.schema_string == writer.snapshot.schema_string
    assert again.snapshot.configuration == writer.snapshot.configuration


def test_memory_and_checkpoints_do_not_grow_with_the_retained_past(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, list(COPY.values()), files=2)
    writer, sizes, objects = open_writer(lake), list[int](), list[int]()
    for rank in range(1, 61):
        apply(writer, update(rank, row(rank % 50, f"x {rank}"), row(200 + rank % 50, f"y {rank}")), rank)
        maintain(writer, ALL)
        if rank % 20 == 0:
            sizes.append(pq.read_metadata(lake.disk(THINGS.name) / write_full_checkpoint(writer)).num_rows)
            gc.collect()
            objects.append(len(gc.get_objects()))
    # a row for each vector, file and commit that went would be more than a hundred
    assert max(sizes) < 40
    # of 20 commits, a few checkpoints are remembered
    assert objects[2] - objects[1] < 20


def count_removes() -> int:
    gc.collect()
    return sum(isinstance(each, Remove) for each in gc.get_objects())


def test_a_readers_memory_does_not_grow_with_what_it_has_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes no checkpoint, so nothing else lets it forget what is gone."""
    monkeypatch.setattr(log, "READER_COMMITS", 10)
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, list(COPY.values()), files=2)
    writer, objects = open_writer(lake), list[int]()
    # of tests before this one, some may still be there
    others = count_removes()
    reader = DeltaLog.open(lake.table_storage(THINGS.name))
    assert reader is not None
    for rank in range(1, 61):
        apply(writer, update(rank, row(rank % 50, f"x {rank}"), row(200 + rank % 50, f"y {rank}")), rank)
        maintain(writer, ALL)
        reader.refresh()
        if rank % 20 == 0:
            objects.append(count_removes() - others)
    assert max(objects) <= 3 * 10
    # one that begins to make checkpoints says from where on they are whole, and nothing is lost
    write_checkpoint(reader, checkpoint.build_checkpoint(reader))
    before = read_by_delta_rs(lake)
    assert vacuum(reader, Retention(0, reader.snapshot.version)) > 100
    assert read_by_delta_rs(lake) == before


def test_a_vector_file_stays_while_one_vector_is_needed(tmp_path: Path) -> None:
    """Two files' vectors share a file; one goes, and readers of the past need the other."""
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, list(COPY.values()), files=2)
    writer, folder = open_writer(lake), lake.disk(THINGS.name)
    apply(writer, update(1, row(5, "x"), row(250, "x")), 1)
    [together] = {file.vector.path for file in writer.snapshot.files.values() if file.vector}
    apply(writer, update(2, row(6, "x")), 2)
    write_full_checkpoint(writer)
    since = writer.snapshot.version
    apply(writer, update(3, row(251, "x")), 3)
    write_full_checkpoint(writer)
    vacuum(writer.log, Retention(0, since))
    assert (folder / together).exists()
    then = DeltaTable(lake.folder(THINGS.name), since, dict(lake.options))
    assert QueryBuilder().register("t", then).execute("SELECT id FROM t").read_all().num_rows == len(COPY)
    vacuum(writer.log, Retention(0, writer.snapshot.version))
    assert not (folder / together).exists()


def test_a_killed_vacuum_is_resumed(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, folder = open_writer(lake), lake.disk(THINGS.name)
    rows = change_rows(writer, range(1, 12))
    write_full_checkpoint(writer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "live_paths", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            vacuum(writer.log, Retention(0, writer.snapshot.version))
    # some of the commits went, the first among them
    for version in (0, 3):
        (folder / "_delta_log" / f"{version:020}.json").unlink()
    again = open_writer(lake, index="again")
    assert vacuum(again.log, Retention(0, again.snapshot.version)) > 0
    assert {path.name for path in folder.glob("*.parquet")} == set(again.snapshot.files)
    assert read_by_delta_rs(lake) == by_id(rows)


def test_an_idle_tables_replaced_files_are_vacuumed(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its few last commits would never trigger a checkpoint."""
    monkeypatch.setattr(checkpoint, "IDLE_MS", 0)
    writer, folder = open_writer(lake), lake.disk(THINGS.name)
    assert compact_files(writer, list(writer.snapshot.files))
    monkeypatch.setattr(checkpoint, "now_ms", lambda: now_ms() + 1000)
    assert take_due_checkpoint(writer.log, now_ms() - 3_600_000) is None
    maintain(writer, Retention(0, writer.snapshot.version))
    assert {path.name for path in folder.glob("*.parquet")} == set(writer.snapshot.files)
    version = writer.log.checkpoint
    maintain(writer, Retention(0, writer.snapshot.version))
    assert writer.log.checkpoint == version


def test_vacuum_uses_another_processs_checkpoints(lake: PlacedLake) -> None:
    writer = open_writer(lake)
    change_rows(writer, range(1, 7))
    DeltaTable(lake.folder(THINGS.name), storage_options=dict(lake.options)).create_checkpoint()
    assert vacuum(writer.log, Retention(0, writer.snapshot.version)) > 0
    assert not (lake.disk(THINGS.name) / "_delta_log" / f"{0:020}.json").exists()


def commit(at: int, *actions: Action) -> list[Action]:
    return [CommitInfo(timestamp=at), *actions]


def add_action(path: str, vector: int = 0) -> Add:
    return Add(path, 1, deletion_vector=_vector(vector))


def remove_action(path: str, at: int, vector: int = 0) -> Remove:
    return Remove(path, at, deletion_vector=_vector(vector))


def _vector(number: int) -> VectorDescriptor | None:
    return VectorDescriptor("u", f"v{number}", 1, 1, 1) if number else None


def test_only_long_lived_files_get_tombstones() -> None:
    tombstones, late = Tombstones(), LIVED_MS + 2
    tombstones.add_commit(commit(1, add_action("a"), add_action("b")))
    tombstones.add_commit(commit(2, remove_action("b", 2), add_action("b", vector=1)))
    assert tombstones.all() == []
    # a vector of ten minutes, and one of a moment
    tombstones.add_commit(commit(late + 2, remove_action("b", late + 1, vector=1), add_action("b", vector=2)))
    tombstones.add_commit(commit(late + 2, remove_action("b", late + 1, vector=2), remove_action("a", late + 1)))
    # one of which nobody knows when it came
    tombstones.add_commit(commit(late + 2, remove_action("c", late + 2)))
    assert [remove.path for remove in tombstones.all()] == ["b", "a", "c"]
    tombstones.forget(late + 1)
    assert [remove.path for remove in tombstones.all()] == ["c"]


def test_tombstones_are_forgotten_beside_commits() -> None:
    """A vacuum forgets them in the maintenance's thread, without the lock of the table."""

    class AtAnyMoment(int):
        """A time; whoever compares it is interrupted by a commit."""

        def __le__(self, other: float) -> bool:
            tombstones.add_commit(commit(LIVED_MS + 9, remove_action(f"late {next(number)}", LIVED_MS + 9)))
            return int(self) <= other

        def __gt__(self, other: float) -> bool:
            return not self <= other

    tombstones, number = Tombstones(), count(1)
    tombstones.restore(remove_action(f"old {each}", AtAnyMoment(1)) for each in range(3))
    tombstones.forget(1)
    assert [remove.path for remove in tombstones.all()] == ["late 1", "late 2", "late 3"]


def test_a_checkpoint_carries_on_older_tombstones(lake: PlacedLake) -> None:
    writer = open_writer(lake)
    before = set(writer.snapshot.files)
    assert compact_files(writer, list(writer.snapshot.files))
    # the copy came this moment: as if it had been there for long
    writer.log.tombstones.restore(_removes(writer.log))
    write_full_checkpoint(writer)
    again = open_writer(lake, index="again")
    assert {remove.path for remove in again.log.tombstones.all()} == before


def _removes(log: DeltaLog) -> list[Remove]:
    return [*of_type(log.actions(log.snapshot.version), Remove)]
