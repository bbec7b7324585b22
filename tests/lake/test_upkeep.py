"""After many batches a table is as small and as quick as on its first day, and nobody loses what he still reads."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cdc.core import model
from cdc.core.change import Delete, Key, Place, Row
from sinks.lake import checkpoint, retention, rewrite
from sinks.lake.checkpoint import due_checkpoint, made, write_checkpoint
from sinks.lake.delta_log import DeltaLog
from sinks.lake.delta_state import DataFile
from sinks.lake.live_table import LiveTable
from sinks.lake.retention import Retention, forget, sweep
from sinks.lake.rewrite import rewritten
from sinks.lake.upkeep import KEPT, LARGEST_BYTES, MADE_BYTES, maintain, to_rewrite
from tests.core.histories import THINGS
from tests.lake.places import PLACES, PlacedLake, in_folder, placed
from tests.lake.tables import apply, by_key, copied, expected, opened, read_by_delta_rs, row, update
from tests.lake.test_write import mixed

COPY: dict[Key, Row] = {(n,): row(n, f"old {n}") for n in range(300)}


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    made = placed(request, tmp_path)
    copied(made, THINGS, list(COPY.values()), files=2)
    return made


def batches(writer: LiveTable, count: int, keep: Callable[[], Retention]) -> dict[Key, Row]:
    """So many batches, each with the upkeep behind it; the rows that are there then."""
    rows = dict(COPY)
    for rank in range(1, count + 1):
        changes = mixed(5, rank, rows)
        apply(writer, changes, rank)
        rows = model.apply(rows, changes)
        maintain(writer, keep())
    return rows


def test_files_and_commits_stay_few(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 10)
    writer = opened(lake)
    rows = batches(writer, 119, lambda: Retention(0, writer.state.version))
    folder = lake.disk(THINGS.name)
    assert len(list(folder.rglob("*.parquet"))) < 40
    # those of the commits since the last checkpoint but one
    assert len(list(folder.rglob("*.bin"))) < 7
    assert len(list((folder / "_delta_log").glob("*.json"))) < 30
    assert read_by_delta_rs(lake) == expected(rows)
    frame = lake.for_spark(spark).read.format("delta").load(lake.folder(THINGS.name))
    assert by_key([r.asDict() for r in frame.collect()]) == expected(rows)
    again = opened(lake, index="new")
    apply(again, update(1000, row(9999, "x")), 1000)
    assert read_by_delta_rs(lake) == expected({**rows, (9999,): row(9999, "x")})


@pytest.mark.parametrize(("many", "every"), [(2, 2), (1, 6)])
def test_of_many_files_a_checkpoint_is_made_more_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int, every: int
) -> None:
    """It names all of them."""
    lake = in_folder(tmp_path)
    copied(lake, THINGS, list(COPY.values()), files=2)
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 2)
    monkeypatch.setattr(checkpoint, "SELDOM", 3)
    monkeypatch.setattr(checkpoint, "MANY_FILES", many)
    writer, made = opened(lake), list[int]()
    for rank in range(1, 13):
        # no new files: what is many stays what it is
        apply(writer, [Delete(THINGS.name, Place(rank, 1), (rank,))], rank)
        if due := due_checkpoint(writer.log, 0):
            write_checkpoint(writer.log, due)
            made.append(writer.state.version)
    # the copy is version 0
    assert made == [version for version in range(1, 13) if (version + 1) % every == 0]


def test_another_process_forgets_what_the_first_has_removed(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a table no longer has stands in the commits that took it out, for as long as they are kept."""
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 10)
    rows = batches(opened(lake), 39, lambda: Retention(1000, 0))
    folder = lake.disk(THINGS.name)
    assert len(list(folder.glob("*.parquet"))) > 40
    again = opened(lake, index="new")
    write_checkpoint(again.log, made(again.log))
    forget(again.log, Retention(0, again.state.version))
    assert {path.name for path in folder.glob("*.parquet")} == set(again.state.files)
    assert read_by_delta_rs(lake) == expected(rows)


def test_what_a_killed_process_left_goes(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, rows = opened(lake), dict(COPY)
    changes = mixed(5, 1, rows)
    apply(writer, changes, 1)
    left = ["part-left.parquet", "copy-left.parquet", "_change_data/cdc-left.parquet", "deletion_vector_left.bin"]
    kept = ["of another hand.parquet"]
    for path in (*left, *kept):
        writer.storage.write(path, b"left")
    kept_past = Retention(0, 0)
    assert sweep(writer.log, kept_past) == 0
    # a day later
    monkeypatch.setattr(retention, "LEFT_HOURS", -1)
    assert sweep(writer.log, kept_past) == len(left)
    assert sweep(writer.log, kept_past) == 0
    assert writer.storage.read(kept[0]) == b"left"
    assert read_by_delta_rs(lake) == expected(model.apply(rows, changes))


def test_a_rewrite_that_another_writer_was_quicker_than_is_given_up(lake: PlacedLake) -> None:
    writer = opened(lake)
    commit, batches = DeltaLog.commit, [update(1, row(5, "new"), row(250, "new"))]

    def after_a_batch(log: DeltaLog, actions: object, operation: str) -> int:
        if operation == "OPTIMIZE" and batches:
            apply(opened(lake, index="other"), batches.pop(), 1)
        return commit(log, actions, operation)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaLog, "commit", after_a_batch)
        assert not rewritten(writer, list(writer.state.files))
    assert rewritten(writer, list(writer.state.files))
    changed = {**COPY, (5,): row(5, "new"), (250,): row(250, "new")}
    assert read_by_delta_rs(lake) == expected(changed)


def test_a_batch_beside_a_rewrite_in_the_same_writer(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = opened(lake)
    written, batches = rewrite._written, [update(1, row(5, "new"), row(250, "new"))]

    def beside_a_batch(*arguments: object) -> object:
        found = written(*arguments)  # type: ignore[arg-type]
        if batches:
            apply(writer, batches.pop(), 1)
        return found

    monkeypatch.setattr(rewrite, "_written", beside_a_batch)
    assert rewritten(writer, list(writer.state.files))
    assert read_by_delta_rs(lake) == expected({**COPY, (5,): row(5, "new"), (250,): row(250, "new")})
    apply(writer, update(2, row(5, "newer")), 2)
    assert read_by_delta_rs(lake)[5] == row(5, "newer")


def test_the_past_that_somebody_needs_stays(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 5)
    writer = opened(lake)
    for rank in range(1, 40):
        apply(writer, update(rank, row(rank, "x"), row(rank + 100, "y")), rank)
        maintain(writer, Retention(0, 10))
    for version in range(11, writer.state.version + 1):
        for action in writer.log.actions(version):
            named = action.get("cdc") or action.get("add")
            assert named is None or (lake.disk(THINGS.name) / named["path"]).exists()
    maintain(writer, Retention(0, writer.state.version))
    assert len(read_by_delta_rs(lake)) == len(COPY)


def test_a_past_that_is_gone_in_part_is_no_failure(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 5)
    writer = opened(lake)
    rows = batches(writer, 20, lambda: Retention(0, writer.state.version))
    assert not (lake.disk(THINGS.name) / "_delta_log" / f"{1:020}.json").exists()
    # somebody stands at a cut without the table, as whoever was far behind when it stopped
    apply(writer, update(100, row(9999, "x")), 100)
    rewritten(writer, list(writer.state.files))
    maintain(writer, Retention(0, 0))
    assert read_by_delta_rs(lake) == expected({**rows, (9999,): row(9999, "x")})


def test_recent_pasts_stay(lake: PlacedLake) -> None:
    writer = opened(lake)
    for rank in range(1, 20):
        apply(writer, update(rank, row(rank, "x")), rank)
        maintain(writer, Retention(1, writer.state.version))
    assert read_by_delta_rs(lake, version=5)[5] == row(5, "x")
    assert read_by_delta_rs(lake, version=5)[6] == row(6, "old 6")


def file(path: str, size: int, rows: int = 10) -> DataFile:
    return DataFile(path, size, rows, "{}", 0)


def test_the_smallest_of_too_many_files_are_put_together() -> None:
    small, large = [file(f"s{n}", 1000) for n in range(8)], [file(f"l{n}", 10_000_000) for n in range(KEPT - 1)]
    assert to_rewrite([*large, *small]) == [[f"s{n}" for n in range(8)]]
    assert to_rewrite([*large, small[0], file("huge", 10**9)]) == []
    assert to_rewrite([*large, *small[:2], file("huge", 10**9)]) == [["s0", "s1"]]


def test_no_file_becomes_too_large() -> None:
    assert to_rewrite([file(f"l{n}", 31_000_000) for n in range(20)]) == [["l0", "l1", "l2", "l3"]]


DOUBLINGS = 17
"""From the smallest of these files to the largest that are put together."""


@settings(max_examples=40)
@given(
    st.lists(st.integers(1_000_000, 60_000_000), max_size=12),
    st.lists(st.lists(st.integers(1_000, 300_000), max_size=20), max_size=150),
)
def test_files_stay_few_and_a_row_is_rewritten_a_handful_of_times(copy: list[int], rounds: list[list[int]]) -> None:
    files, written = dict[str, int](), 0
    for number, sizes in enumerate([copy, *rounds]):
        files |= {f"{number}-{n}": size for n, size in enumerate(sizes)}
        while groups := to_rewrite(file(path, size) for path, size in files.items()):
            (group,) = groups
            made = [files.pop(path) for path in group]
            # the file that a row lies in has doubled at least
            assert 2 * max(made) <= sum(made) <= MADE_BYTES
            written += sum(made)
            files[f"{number}-{written}"] = sum(made)
        assert sum(size < LARGEST_BYTES for size in files.values()) <= max(KEPT, DOUBLINGS)
    assert written <= DOUBLINGS * sum(sum(sizes) for sizes in [copy, *rounds])
