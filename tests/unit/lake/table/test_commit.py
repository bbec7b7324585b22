"""Batches written without a join end as the model says, whatever else happened to the table."""

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from cdc.core.errors import DivergenceError, RefusedError, TableLostError
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.log import ConflictError, DeltaLog
from cdc.sinks.lake.table.compact import compact_files
from cdc.sinks.lake.table.writer import TableWriter
from tests.support import model
from tests.support.histories import THINGS
from tests.support.lake.mixed_changes import mix_changes
from tests.support.lake.places import PLACES, PlacedLake, in_folder, place_lake
from tests.support.lake.tables import APP, apply, by_id, by_key, copy_rows, open_writer, read_by_delta_rs, row, update
from tests.support.model import UNCHANGED, Change, CommitOrder, Delete, Insert, Key, Row, Truncate, Update

COPY: dict[Key, Row] = {(n,): row(n, f"old {n}") for n in range(200)}
T = THINGS.name


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    made = place_lake(request, tmp_path)
    copy_rows(made, THINGS, list(COPY.values()), files=3)
    return made


@pytest.fixture
def folder_lake(tmp_path: Path) -> PlacedLake:
    """A lake that Spark may write to, unlike one on an object store."""
    made = in_folder(tmp_path)
    copy_rows(made, THINGS, list(COPY.values()), files=3)
    return made


def play(lake: PlacedLake, batches: int, between: Callable[[int], None] = lambda _: None) -> dict[Key, Row]:
    """Apply batches through one writer, with an action between them; returns the expected rows."""
    writer, rows = open_writer(lake), dict(COPY)
    for rank in range(1, batches + 1):
        changes = mix_changes(7, rank, rows)
        apply(writer, changes, rank)
        rows = model.apply(rows, changes)
        between(rank)
    return rows


def test_every_reader_sees_the_rows(lake: PlacedLake, spark: SparkSession) -> None:
    rows = by_id(play(lake, 12))
    folder = lake.folder(T)
    assert read_by_delta_rs(lake) == rows
    assert by_key(polars.scan_delta(folder, storage_options=dict(lake.options)).collect().to_dicts()) == rows
    frame = lake.for_spark(spark).read.format("delta").load(folder)
    assert by_key([record.asDict() for record in frame.collect()]) == rows
    assert frame.where("small = 12").count() == len([r for r in rows.values() if r["small"] == 12])


def test_duckdb_sees_the_rows(folder_lake: PlacedLake) -> None:
    rows = by_id(play(folder_lake, 3))
    connection = duckdb.connect()
    try:
        connection.execute("LOAD delta")
    except duckdb.Error:
        pytest.skip("DuckDB's delta extension is not installed, and is to be had from its own server only")
    records = connection.execute(f"SELECT id, small, big FROM delta_scan('{folder_lake.folder(T)}')").fetchall()
    assert by_key([dict(zip(("id", "small", "big"), record, strict=True)) for record in records]) == rows


def test_other_writers_that_change_no_row_do_no_harm(folder_lake: PlacedLake, spark: SparkSession) -> None:
    """One after the other, with batches between them; any may be the one that a batch cannot bear."""
    folder = folder_lake.folder(T)

    def do(rank: int) -> None:
        before = read_by_delta_rs(folder_lake)
        match rank:
            case 2:
                spark.sql(f"OPTIMIZE delta.`{folder}`")
            case 4:
                DeltaTable(folder).create_checkpoint()
            case 5:
                spark.sql(f"REORG TABLE delta.`{folder}` APPLY (PURGE)")
            case 7:
                spark.sql(f"VACUUM delta.`{folder}` RETAIN 0 HOURS")
        assert read_by_delta_rs(folder_lake) == before

    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    rows = by_id(play(folder_lake, 8, do))
    assert read_by_delta_rs(folder_lake) == rows
    assert by_key([record.asDict() for record in spark.read.format("delta").load(folder).collect()]) == rows


def test_an_unsent_value_without_a_previous_row_is_refused(folder_lake: PlacedLake) -> None:
    writer = open_writer(folder_lake)
    unsent = Update(T, CommitOrder(1, 1), (2000,), {"id": 2000, "small": 1, "big": UNCHANGED})
    with pytest.raises(DivergenceError, match=r"public\.things: an update left out values, .* → .*cdc verify"):
        apply(writer, [unsent], 1)
    assert writer.snapshot.transactions.get(APP) is None


def test_keys_that_two_rows_had_for_a_while_are_refused(folder_lake: PlacedLake) -> None:
    """As `UPDATE t SET id = 5 - id` does where the key is not checked at once (DEFERRABLE)."""
    writer, before = open_writer(folder_lake), read_by_delta_rs(folder_lake)
    swap: list[Change] = [
        Delete(T, CommitOrder(1, 1), (2,), (3,)),
        Insert(T, CommitOrder(1, 2), (3,), row(3, "was 2"), (2,)),
        Delete(T, CommitOrder(1, 3), (3,), (2,)),
        Insert(T, CommitOrder(1, 4), (2,), row(2, "was 3"), (3,)),
    ]
    with pytest.raises(DivergenceError, match=r"the key was another one for a while or is not unique"):
        apply(writer, swap, 1)
    # a key that no row has may come and go
    passing: list[Change] = [
        Insert(T, CommitOrder(2, 1), (10_000,), row(10_000, "x")),
        Delete(T, CommitOrder(2, 2), (10_000,)),
    ]
    apply(writer, passing, 2)
    assert read_by_delta_rs(folder_lake) == before


def test_inserting_an_existing_key_is_refused(folder_lake: PlacedLake) -> None:
    writer, before = open_writer(folder_lake), read_by_delta_rs(folder_lake)
    again = [
        Insert(T, CommitOrder(1, 1), (2,), row(2, "another")),
        Insert(T, CommitOrder(1, 2), (10_000,), row(10_000, "new")),
    ]
    with pytest.raises(DivergenceError, match=r"1 row inserted whose key \(id\) the lake has already"):
        apply(writer, again, 1)
    assert read_by_delta_rs(folder_lake) == before
    # it may come back, once it is gone
    apply(writer, [Delete(T, CommitOrder(2, 1), (2,))], 2)
    apply(writer, [Insert(T, CommitOrder(3, 1), (2,), row(2, "again"))], 3)
    assert read_by_delta_rs(folder_lake)[2] == row(2, "again")


@pytest.mark.parametrize("index", ["saved", "lost", "of another time"])
def test_a_new_process_finds_every_row(lake: PlacedLake, index: str) -> None:
    rows, folder = dict(COPY), lake.indexes / "index"
    for rank in range(1, 9):
        writer = open_writer(lake)
        changes = mix_changes(3, rank, rows)
        apply(writer, changes, rank)
        rows = model.apply(rows, changes)
        if index == "saved" or (index == "of another time" and rank == 2):
            writer.save_index(everything=True)
        if index == "lost":
            shutil.rmtree(folder, ignore_errors=True)
    assert read_by_delta_rs(lake) == by_id(rows)


def test_a_truncate_keeps_later_inserts(lake: PlacedLake) -> None:
    writer = open_writer(lake)
    behind = Insert(T, CommitOrder(2, 2), (1,), row(1, "behind"))
    apply(writer, [*update(1, row(5, "before")), Truncate(T, CommitOrder(2, 1)), behind], 1)
    assert read_by_delta_rs(lake) == {1: row(1, "behind")}
    apply(writer, [*update(3, row(1, "after"))], 2)
    assert read_by_delta_rs(lake) == {1: row(1, "after")}


def test_a_commit_after_a_conflict_builds_on_the_other_commit(lake: PlacedLake) -> None:
    """The other writer commits between lookup and commit: ours is retried, and both effects stay."""
    mine, theirs = open_writer(lake), open_writer(lake, index="theirs")
    commit, others = DeltaLog.commit, [lambda: compact_files(theirs, list(theirs.snapshot.files))]

    def after_another(log: DeltaLog, *arguments: object) -> int:
        if log is mine.log and others:
            others.pop()()
        return commit(log, *arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaLog, "commit", after_another)
        apply(mine, update(1, row(4, "mine")), 1)
    assert not others
    assert read_by_delta_rs(lake) == by_id({**COPY, (4,): row(4, "mine")})
    assert len(mine.snapshot.files) == 2


def test_a_position_moved_by_another_writer_is_refused(lake: PlacedLake) -> None:
    mine, theirs = open_writer(lake), open_writer(lake, index="theirs")
    apply(theirs, update(1, row(4, "theirs")), 1)
    with pytest.raises(RefusedError, match=r"another writer moved public\.things to offset 1"):
        apply(mine, update(1, row(4, "mine")), 1)
    assert read_by_delta_rs(lake)[4] == row(4, "theirs")


def test_a_removed_table_is_not_recreated(lake: PlacedLake) -> None:
    writer = open_writer(lake)
    shutil.rmtree(lake.disk(T))
    with pytest.raises(
        TableLostError, match=r"public\.things: .* of the lake is gone → .*`cdc bootstrap --again public"
    ):
        apply(writer, update(1, row(4, "x")), 1)
    assert not (lake.disk(T) / "_delta_log").exists()
    assert layout.open_owned_log(lake, T) is None


def test_a_removed_log_is_not_continued(lake: PlacedLake) -> None:
    """Nobody could read a table whose earlier versions are gone."""
    writer = open_writer(lake)
    apply(writer, update(1, row(4, "x")), 1)
    shutil.rmtree(lake.disk(T) / "_delta_log")
    with pytest.raises(TableLostError, match=r"public\.things: version 1 is gone from the lake: removed, or put back"):
        apply(writer, update(2, row(4, "y")), 2)
    assert layout.open_owned_log(lake, T) is None


def test_a_kill_before_the_commit_leaves_no_rows(lake: PlacedLake) -> None:
    writer: TableWriter = open_writer(lake)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaLog, "commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            apply(writer, update(1, row(4, "lost")), 1)
    assert read_by_delta_rs(lake) == by_id(COPY)
    apply(open_writer(lake), update(1, row(4, "kept")), 1)
    assert read_by_delta_rs(lake)[4] == row(4, "kept")


def test_endless_conflicts_are_reported_by_table(lake: PlacedLake) -> None:
    writer = open_writer(lake)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaLog, "commit", lambda *_: (_ for _ in ()).throw(ConflictError))
        with pytest.raises(RefusedError, match=r"other writers kept public\.things busy"):
            apply(writer, update(1, row(4, "x")), 1)
