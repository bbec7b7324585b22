"""The key index finds all live rows after merges, saves, damage and dropped files."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.rows.key_fingerprints import KeyBits
from cdc.sinks.lake.index import key_index, run_merge
from cdc.sinks.lake.index.key_index import KeyIndex, VersionId
from cdc.sinks.lake.index.run_files import write_run
from cdc.sinks.lake.index.sorted_runs import Places
from tests.support.examples import examples


def bits(*keys: int) -> KeyBits:
    """Few distinct upper halves, so that keys collide in them."""
    numbers = np.array(keys, np.uint64)
    return KeyBits(numbers % np.uint64(5), numbers)


NOW = VersionId(7, "of version 7")


def open_index(folder: Path, table_id: str, now: VersionId = NOW) -> KeyIndex:
    """Open the index of a table whose history contains `now`."""
    return KeyIndex.open(folder, table_id, now.__eq__)


def all_live(places: Places) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    return np.ones(len(places), np.bool_)


def find_entries(index: KeyIndex, *keys: int) -> set[tuple[int, str, int]]:
    hits, paths = index.find(bits(*keys)), index.paths()
    rows = zip(hits.queries.tolist(), hits.files.tolist(), hits.rows.tolist(), strict=True)
    return {(keys[asked], paths[file], row) for asked, file, row in rows if file in paths}


def _in_files_from(number: int, places: Places) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    return np.asarray(places >> np.uint64(32) >= number)


files = st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=12)


@given(files, st.sets(st.integers(0, 11)), st.lists(st.integers(0, 35), max_size=20, unique=True))
def test_finds_all_keys_of_indexed_files(contents: list[list[int]], forgotten: set[int], asked: list[int]) -> None:
    index = KeyIndex(Path("nowhere"), "t")
    for number, keys in enumerate(contents):
        index.add({f"f{number}": bits(*keys)}, all_live)
        if number in forgotten:
            index.forget([f"f{number}"])
    expected = {
        (key, f"f{number}", row)
        for number, keys in enumerate(contents)
        for row, key in enumerate(keys)
        if key in asked and number not in forgotten
    }
    assert find_entries(index, *asked) == expected


@given(files, st.sets(st.integers(0, 11)), st.lists(st.integers(0, 35), max_size=20, unique=True), st.integers(1, 12))
@examples(60)
def test_finds_keys_in_runs_merged_file_to_file(
    contents: list[list[int]], dead: set[int], asked: list[int], at_once: int
) -> None:
    with TemporaryDirectory() as folder, patch.multiple(run_merge, MAX_MEMORY_ENTRIES=3, RANGE_ENTRIES=2):
        index = open_index(Path(folder), "t")
        named = [(f"f{number}", bits(*keys)) for number, keys in enumerate(contents)]
        index.add_many([dict(named[at : at + at_once]) for at in range(0, len(named), at_once)], partial(_not_in, dead))
        alive = {
            (key, f"f{number}", row)
            for number, keys in enumerate(contents)
            for row, key in enumerate(keys)
            if key in asked and number not in dead
        }
        assert {hit for hit in find_entries(index, *asked) if int(hit[1][1:]) not in dead} == alive
        index.save(NOW, everything=True)
        assert find_entries(open_index(Path(folder), "t"), *asked) == find_entries(index, *asked)
        assert len(list(Path(folder).glob("run-*"))) == len(index._runs)


def test_a_failing_group_keeps_the_groups_before_it(tmp_path: Path) -> None:
    def groups() -> Iterator[dict[str, KeyBits]]:
        yield {"a": bits(1, 2)}
        yield {"b": bits(2)}
        raise OSError("gone")

    index = open_index(tmp_path, "t")
    with pytest.raises(OSError, match="gone"):
        index.add_many(groups(), all_live)
    assert set(index.files) == {"a", "b"}
    assert find_entries(index, 1, 2) == {(1, "a", 0), (2, "a", 1), (2, "b", 0)}
    index.save(NOW, everything=True)
    assert find_entries(open_index(tmp_path, "t"), 1, 2) == find_entries(index, 1, 2)


def test_an_index_that_is_never_saved_again_leaves_no_merged_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the saved index has stays: after a kill, it is opened again."""
    monkeypatch.setattr(run_merge, "MAX_MEMORY_ENTRIES", 3)
    monkeypatch.setattr(run_merge, "RANGE_ENTRIES", 2)
    index = open_index(tmp_path, "t")
    index.add({"f0": bits(*range(9))}, all_live)
    index.save(NOW, everything=True)
    saved = {path.name for path in tmp_path.glob("run-*")}
    for number in range(1, 20):
        index.add({f"f{number}": bits(*range(9))}, all_live)
        there = {path.name for path in tmp_path.glob("run-*")}
        assert there >= saved
        assert len(there) <= len(saved) + len(index._runs)
    assert len(find_entries(open_index(tmp_path, "t"), 8)) == 1
    assert len(find_entries(index, 8)) == 20


def test_parts_that_cannot_be_sorted_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_merge, "MAX_MEMORY_ENTRIES", 3)
    monkeypatch.setattr(run_merge, "RANGE_ENTRIES", 2)
    written = list[object]()

    def write(*asked: Any) -> Any:
        written.append(asked)
        if len(written) == 3:
            raise OSError("the disk is full")
        return write_run(*asked)

    monkeypatch.setattr(run_merge, "write_run", write)
    index = open_index(tmp_path, "t")
    with pytest.raises(OSError, match="full"):
        index.add({"f": bits(*range(9))}, all_live)
    assert [*tmp_path.glob("run-*")] == []
    assert not index.files
    index.add({"f": bits(*range(9))}, all_live)
    assert find_entries(index, 8) == {(8, "f", 8)}


def _not_in(dead: set[int], places: Places) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    return ~np.isin(places >> np.uint64(32), list(dead))


def test_merges_drop_deleted_rows() -> None:
    index = KeyIndex(Path("nowhere"), "t")
    for number in range(20):
        index.add({f"f{number}": bits(1, 2, 3)}, partial(_in_files_from, number))
    assert len(index) < 20
    assert {path for _, path, _ in find_entries(index, 1)} >= {"f19"}


def test_a_saved_index_is_read_back(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index", "t")
    index.add({"a": bits(*range(100)), "b": bits(7, 8)}, all_live)
    index.save(NOW, everything=True)
    again = open_index(tmp_path / "index", "t")
    assert find_entries(again, 7, 50) == {(7, "a", 7), (7, "b", 0), (50, "a", 50)}
    again.add({"c": bits(7)}, all_live)
    assert find_entries(again, 7) == {(7, "a", 7), (7, "b", 0), (7, "c", 0)}
    again.save(NOW, everything=True)
    assert len(list((tmp_path / "index").glob("run-*"))) == len(again._runs)


def test_files_of_unsaved_runs_are_unknown_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "MAX_MEMORY_ENTRIES", 50)
    index = open_index(tmp_path, "t")
    index.add({"large": bits(*range(100))}, all_live)
    index.add({"small": bits(1)}, all_live)
    index.save(NOW, everything=False)
    assert set(open_index(tmp_path, "t").files) == {"large"}


@pytest.mark.parametrize("damage", ["another table", "manifest", "run", "lost run"])
def test_a_damaged_index_opens_empty(tmp_path: Path, damage: str) -> None:
    index = open_index(tmp_path, "t")
    index.add({"a": bits(*range(100))}, all_live)
    index.save(NOW, everything=True)
    [run] = tmp_path.glob("run-*")
    match damage:
        case "manifest":
            (tmp_path / key_index.MANIFEST).write_text("{")
        case "run":
            run.write_bytes(run.read_bytes()[:-1])
        case "lost run":
            run.unlink()
    again = open_index(tmp_path, "other" if damage == "another table" else "t")
    assert (len(again), list(again.files)) == (0, [])
