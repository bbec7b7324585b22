"""After many batches a table is as small and fast as on day one, and readers keep their past."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cdc.core.position import Lsn
from cdc.core.table import Column, Kind, Table
from cdc.sinks.lake.delta import checkpoint, retention
from cdc.sinks.lake.delta.actions import Add, Cdc
from cdc.sinks.lake.delta.checkpoint import build_checkpoint, take_due_checkpoint, write_checkpoint
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.delta.retention import Retention, delete_orphans, vacuum
from cdc.sinks.lake.delta.scan import live_rows
from cdc.sinks.lake.delta.snapshot import DataFile
from cdc.sinks.lake.table import compact
from cdc.sinks.lake.table.compact import compact_files
from cdc.sinks.lake.table.maintenance import (
    LARGEST_BYTES,
    MAX_COMPACTED_BYTES,
    MAX_SMALL_FILES,
    TINY_BYTES,
    maintain,
    plan_compaction,
)
from cdc.sinks.lake.table.writer import TableWriter
from tests.support import model
from tests.support.examples import examples
from tests.support.histories import THINGS
from tests.support.lake.mixed_changes import mix_changes
from tests.support.lake.places import PLACES, PlacedLake, in_folder, place_lake
from tests.support.lake.tables import apply, by_id, by_key, copy_rows, open_writer, read_by_delta_rs, row, update
from tests.support.model import CommitOrder, Delete, Key, Row
from tests.unit.columns.test_fold_rows import LOGS

COPY: dict[Key, Row] = {(n,): row(n, f"old {n}") for n in range(300)}


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    placed = place_lake(request, tmp_path)
    copy_rows(placed, THINGS, list(COPY.values()), files=2)
    return placed


def batches(writer: TableWriter, count: int, keep: Callable[[], Retention]) -> dict[Key, Row]:
    """Apply `count` batches, each with maintenance; returns the expected rows."""
    rows = dict(COPY)
    for rank in range(1, count + 1):
        changes = mix_changes(5, rank, rows)
        apply(writer, changes, rank)
        rows = model.apply(rows, changes)
        maintain(writer, keep())
    return rows


def test_files_and_commits_stay_few(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 10)
    writer = open_writer(lake)
    rows = batches(writer, 59, lambda: Retention(0, writer.snapshot.version))
    folder = lake.disk(THINGS.name)
    assert len(list(folder.rglob("*.parquet"))) < 40
    # those of the commits since the last checkpoint but one
    assert len(list(folder.rglob("*.bin"))) < 7
    assert len(list((folder / "_delta_log").glob("*.json"))) < 30
    assert read_by_delta_rs(lake) == by_id(rows)
    frame = lake.for_spark(spark).read.format("delta").load(lake.folder(THINGS.name))
    assert by_key([r.asDict() for r in frame.collect()]) == by_id(rows)
    again = open_writer(lake, index="new")
    apply(again, update(1000, row(9999, "x")), 1000)
    assert read_by_delta_rs(lake) == by_id({**rows, (9999,): row(9999, "x")})


def test_files_without_statistics_are_written_and_compacted(tmp_path: Path) -> None:
    """As an OPTIMIZE leaves them where the collection of statistics is off."""
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, list(COPY.values()), files=2)
    [copied] = (lake.disk(THINGS.name) / "_delta_log").glob("*.json")
    copied.write_text(re.sub(r',"stats":"(?:[^"\\]|\\.)*"', "", copied.read_text()))
    writer = open_writer(lake)
    assert {file.rows for file in writer.snapshot.files.values()} == {-1}
    rows = {key: values for key, values in COPY.items() if key != (7,)} | {(8,): row(8, "new")}
    apply(writer, [*update(1, row(8, "new")), Delete(THINGS.name, CommitOrder(1, 2), (7,))], 1)
    assert plan_compaction([replace(file, size=TINY_BYTES + 1) for file in writer.snapshot.files.values()]) == []
    assert read_by_delta_rs(lake) == by_id(rows)
    assert compact_files(writer, list(writer.snapshot.files))
    assert read_by_delta_rs(lake) == by_id(rows)
    assert writer.snapshot.live_rows == len(rows)


@pytest.mark.parametrize(("many", "every"), [(2, 2), (1, 6)])
def test_tables_with_many_files_are_checkpointed_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int, every: int
) -> None:
    """A checkpoint lists all files."""
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, list(COPY.values()), files=2)
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 2)
    monkeypatch.setattr(checkpoint, "SELDOM_FACTOR", 3)
    monkeypatch.setattr(checkpoint, "MANY_FILES", many)
    writer, written = open_writer(lake), list[int]()
    for rank in range(1, 13):
        # deletes add no files, so the number of files stays
        apply(writer, [Delete(THINGS.name, CommitOrder(rank, 1), (rank,))], rank)
        if due := take_due_checkpoint(writer.log, 0):
            write_checkpoint(writer.log, due)
            written.append(writer.snapshot.version)
    # the copy is version 0
    assert written == [version for version in range(1, 13) if (version + 1) % every == 0]


def test_another_process_vacuums_files_removed_by_the_first(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commits that removed the files name them, as long as they are kept."""
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 10)
    rows = batches(open_writer(lake), 39, lambda: Retention(1000, 0))
    folder = lake.disk(THINGS.name)
    assert len(list(folder.glob("*.parquet"))) > 40
    again = open_writer(lake, index="new")
    write_checkpoint(again.log, build_checkpoint(again.log))
    vacuum(again.log, Retention(0, again.snapshot.version))
    assert {path.name for path in folder.glob("*.parquet")} == set(again.snapshot.files)
    assert read_by_delta_rs(lake) == by_id(rows)


def test_orphans_of_a_killed_process_are_deleted(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, rows = open_writer(lake), dict(COPY)
    changes = mix_changes(5, 1, rows)
    apply(writer, changes, 1)
    orphans = ["part-left.parquet", "copy-left.parquet", "_change_data/cdc-left.parquet", "deletion_vector_left.bin"]
    foreign = ["of another hand.parquet"]
    for path in (*orphans, *foreign):
        writer.storage.write(path, b"left")
    kept_past = Retention(0, 0)
    assert delete_orphans(writer.log, kept_past) == 0
    # a day later
    monkeypatch.setattr(retention, "ORPHAN_HOURS", -1)
    assert delete_orphans(writer.log, kept_past) == len(orphans)
    assert delete_orphans(writer.log, kept_past) == 0
    assert writer.storage.read(foreign[0]) == b"left"
    assert read_by_delta_rs(lake) == by_id(model.apply(rows, changes))


def test_a_compaction_yields_to_another_writer(lake: PlacedLake) -> None:
    writer = open_writer(lake)
    commit, batches = DeltaLog.commit, [update(1, row(5, "new"), row(250, "new"))]

    def after_a_batch(log: DeltaLog, actions: object, operation: str) -> int:
        if operation == "OPTIMIZE" and batches:
            apply(open_writer(lake, index="other"), batches.pop(), 1)
        return commit(log, actions, operation)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaLog, "commit", after_a_batch)
        assert not compact_files(writer, list(writer.snapshot.files))
    assert compact_files(writer, list(writer.snapshot.files))
    changed = {**COPY, (5,): row(5, "new"), (250,): row(250, "new")}
    assert read_by_delta_rs(lake) == by_id(changed)


def test_a_batch_may_commit_beside_a_compaction(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = open_writer(lake)
    written, batches = compact._write_live_rows, [update(1, row(5, "new"), row(250, "new"))]

    def beside_a_batch(*arguments: object) -> object:
        result = written(*arguments)  # type: ignore[arg-type]
        if batches:
            apply(writer, batches.pop(), 1)
        return result

    monkeypatch.setattr(compact, "_write_live_rows", beside_a_batch)
    assert compact_files(writer, list(writer.snapshot.files))
    assert read_by_delta_rs(lake) == by_id({**COPY, (5,): row(5, "new"), (250,): row(250, "new")})
    apply(writer, update(2, row(5, "newer")), 2)
    assert read_by_delta_rs(lake)[5] == row(5, "newer")


@pytest.mark.parametrize("table", [THINGS, LOGS], ids=["key", "no key"])
def test_a_column_may_be_added_beside_a_compaction(tmp_path: Path, table: Table) -> None:
    """The compaction gives way to it, and the next one has the column."""
    lake = in_folder(tmp_path)
    copy_rows(lake, table, [dict.fromkeys(table.column_names), dict.fromkeys(table.column_names)], files=2)
    writer, wider = open_writer(lake, table), replace(table, columns=(*table.columns, Column("late", Kind.TEXT)))

    def beside_a_schema_change(*arguments: Any, **options: Any) -> Iterator[pa.Table]:
        if writer.table == table:
            writer.add_columns(wider, Lsn(5))
        yield from live_rows(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "live_rows", beside_a_schema_change)
        assert not compact_files(writer, list(writer.snapshot.files))
        assert compact_files(writer, list(writer.snapshot.files))
    assert writer.snapshot.live_rows == 2
    assert len(writer.snapshot.files) == 1


def test_a_past_needed_by_a_follower_is_kept(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 5)
    writer = open_writer(lake)
    for rank in range(1, 40):
        apply(writer, update(rank, row(rank, "x"), row(rank + 100, "y")), rank)
        maintain(writer, Retention(0, 10))
    for version in range(11, writer.snapshot.version + 1):
        for action in writer.log.actions(version):
            assert not isinstance(action, Add | Cdc) or (lake.disk(THINGS.name) / action.path).exists()
    maintain(writer, Retention(0, writer.snapshot.version))
    assert len(read_by_delta_rs(lake)) == len(COPY)


def test_vacuum_accepts_a_partly_deleted_past(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 5)
    writer = open_writer(lake)
    rows = batches(writer, 20, lambda: Retention(0, writer.snapshot.version))
    assert not (lake.disk(THINGS.name) / "_delta_log" / f"{1:020}.json").exists()
    # somebody stands at a cut without the table, as whoever was far behind when it stopped
    apply(writer, update(100, row(9999, "x")), 100)
    compact_files(writer, list(writer.snapshot.files))
    maintain(writer, Retention(0, 0))
    assert read_by_delta_rs(lake) == by_id({**rows, (9999,): row(9999, "x")})


def test_a_recent_past_is_kept(lake: PlacedLake) -> None:
    writer = open_writer(lake)
    for rank in range(1, 20):
        apply(writer, update(rank, row(rank, "x")), rank)
        maintain(writer, Retention(1, writer.snapshot.version))
    assert read_by_delta_rs(lake, version=5)[5] == row(5, "x")
    assert read_by_delta_rs(lake, version=5)[6] == row(6, "old 6")


def file(path: str, size: int, rows: int = 10) -> DataFile:
    return DataFile(path, size, rows, "{}", 0)


def test_the_smallest_of_too_many_files_are_compacted() -> None:
    small, large = (
        [file(f"s{n}", 1000) for n in range(8)],
        [file(f"l{n}", 10_000_000) for n in range(MAX_SMALL_FILES - 1)],
    )
    assert plan_compaction([*large, *small]) == [[f"s{n}" for n in range(8)]]
    assert plan_compaction([*large, small[0], file("huge", 10**9)]) == []
    assert plan_compaction([*large, *small[:2], file("huge", 10**9)]) == [["s0", "s1"]]


def test_no_file_becomes_too_large() -> None:
    assert plan_compaction([file(f"l{n}", 31_000_000) for n in range(20)]) == [["l0", "l1", "l2", "l3"]]


DOUBLINGS = 17
"""Doublings from the smallest of these files to the largest compacted one."""


@examples(40)
@given(
    st.lists(st.integers(1_000_000, 60_000_000), max_size=12),
    st.lists(st.lists(st.integers(1_000, 300_000), max_size=20), max_size=150),
)
def test_files_stay_few_and_a_row_is_rewritten_a_handful_of_times(copy: list[int], rounds: list[list[int]]) -> None:
    files, written = dict[str, int](), 0
    for number, sizes in enumerate([copy, *rounds]):
        files |= {f"{number}-{n}": size for n, size in enumerate(sizes)}
        while groups := plan_compaction(file(path, size) for path, size in files.items()):
            (group,) = groups
            merged = [files.pop(path) for path in group]
            # the file that a row lies in has doubled at least
            assert 2 * max(merged) <= sum(merged) <= MAX_COMPACTED_BYTES
            written += sum(merged)
            files[f"{number}-{written}"] = sum(merged)
        assert sum(size < LARGEST_BYTES for size in files.values()) <= max(MAX_SMALL_FILES, DOUBLINGS)
    assert written <= DOUBLINGS * sum(sum(sizes) for sizes in [copy, *rounds])
