"""Damage to an index on disk, at any time, costs time and never a row."""

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.sinks.lake.index import key_index
from cdc.sinks.lake.index.key_index import KeyIndex
from cdc.sinks.lake.index.run_files import BLOCK, DamagedRunError
from cdc.sinks.lake.table.indexed_rows import IndexedRows
from tests.support import model
from tests.support.examples import examples
from tests.support.histories import THINGS
from tests.support.lake.damage import Damage, back_up, damages
from tests.support.lake.mixed_changes import mix_changes
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables import apply, by_id, copy_rows, open_writer, read_by_delta_rs, row, update
from tests.support.model import Key, Row
from tests.unit.lake.index.test_key_index import NOW, all_live, bits, find_entries
from tests.unit.lake.index.test_key_index import open_index as open_saved_index

KEYS = range(150)
COPY: dict[Key, Row] = {(n,): row(n, f"old {n}") for n in KEYS}


def fill_index(folder: Path, runs: Sequence[int]) -> KeyIndex:
    """A saved index with these numbers of entries per run, all runs in files."""
    index = open_saved_index(folder, "t")
    for number, entries in enumerate(runs):
        index._runs.append(index._to_run({f"f{number}": bits(*range(number, entries + number))}))
    index.save(NOW, everything=True)
    return index


@examples(300)
@given(
    st.lists(st.integers(1, 5 * BLOCK), min_size=1, max_size=4),
    st.lists(damages, min_size=1, max_size=3),
    st.lists(st.integers(0, 200), min_size=1, max_size=20, unique=True),
)
def test_a_damaged_index_finds_right_rows_or_raises(runs: list[int], done: list[Damage], asked: list[int]) -> None:
    with TemporaryDirectory() as place:
        folder, other = Path(place, "index"), Path(place, "other")
        index = fill_index(folder, runs)
        fill_index(other, [entries + 1 for entries in runs])
        right = find_entries(index, *asked)
        for damage in done:
            damage.do(folder, [other])
        # mapped before the damage, and opened after it
        for opened in (index, open_saved_index(folder, "t")):
            try:
                result = find_entries(opened, *asked)
            except DamagedRunError:
                continue
            assert result == right or not opened.files


def test_every_flipped_bit_is_detected(tmp_path: Path) -> None:
    index = fill_index(tmp_path, [2 * BLOCK])
    [run] = tmp_path.glob("run-*")
    whole, blocks = run.read_bytes(), 2 * (3 * BLOCK + 1) * 8
    for bit in range(0, len(whole) * 8, 5):
        flipped = Damage("flip", 0, bit // 8, bit % 8).apply_to(whole)
        with run.open("r+b") as file:
            file.write(flipped)
        if bit // 8 < blocks:
            with pytest.raises(DamagedRunError):
                index.find(bits(*range(2 * BLOCK)))
        else:
            assert open_saved_index(tmp_path, "t").discard_reason == "was damaged"


@given(st.lists(st.integers(0, 3 * BLOCK), max_size=3), st.data())
@examples(60)
def test_equal_damage_to_two_words_is_detected(words: list[int], data: st.DataObject) -> None:
    """Upper bits of a product sum reach only upper bits: equal flips of two words must not cancel out."""
    with TemporaryDirectory() as place:
        index = fill_index(Path(place), [BLOCK])
        [run] = Path(place).glob("run-*")
        content = np.frombuffer(run.read_bytes(), np.uint64).copy()
        first = data.draw(st.integers(1, 3 * BLOCK))
        second = data.draw(st.integers(1, 3 * BLOCK).filter(lambda at: at != first))
        mask = np.uint64(1) << np.uint64(data.draw(st.integers(40, 63)))
        content[[first, second]] ^= mask
        with run.open("r+b") as file:
            file.write(content.tobytes())
        with pytest.raises(DamagedRunError):
            index.find(bits(*range(5)))


def test_merges_detect_damage(tmp_path: Path) -> None:
    index = fill_index(tmp_path, [3 * BLOCK])
    [run] = tmp_path.glob("run-*")
    Damage("flip", 1, 200, 3).do(tmp_path)
    with pytest.raises(DamagedRunError, match=run.name):
        index.add({"g": bits(*range(3 * BLOCK))}, all_live)


@pytest.fixture
def lake(tmp_path: Path) -> PlacedLake:
    made = in_folder(tmp_path)
    copy_rows(made, THINGS, list(COPY.values()), files=3)
    return made


Step = tuple[Damage | None, bool, bool]
steps = st.lists(st.tuples(st.none() | damages, st.booleans(), st.booleans()), min_size=2, max_size=6)


@examples(40)
@given(steps, st.integers(0, 1000))
def test_histories_end_equal_to_the_model(done: list[Step], seed: int) -> None:
    """Damage while a process has the index, between processes, and by older copies of its files."""
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "MAX_MEMORY_ENTRIES", 20)
        lake, rows = in_folder(Path(place)), dict(COPY)
        copy_rows(lake, THINGS, list(COPY.values()), files=3)
        folder, numbers = lake.indexes / "index", itertools.count()
        writer, olds = open_writer(lake), list[Path]()
        for rank, (damage, restarts, saves_all) in enumerate(done, 1):
            changes = mix_changes(seed, rank, rows)
            apply(writer, changes, rank)
            rows = model.apply(rows, changes)
            writer.save_index(everything=saves_all)
            olds.append(back_up(folder, Path(place, f"old{next(numbers)}")))
            if damage:
                damage.do(folder, olds)
            writer = open_writer(lake) if restarts else writer
        changes = mix_changes(seed, 100, rows)
        apply(writer, changes, 100)
        assert read_by_delta_rs(lake) == by_id(model.apply(rows, changes))


@pytest.mark.parametrize("when", ["while it is mapped", "between two processes"])
def test_a_damaged_index_is_rebuilt_with_one_note(lake: PlacedLake, when: str) -> None:
    writer = open_writer(lake)
    apply(writer, update(1, row(1, "x")), 1)
    writer.save_index(everything=True)
    writer = open_writer(lake)
    if when == "while it is mapped":
        apply(writer, update(2, row(2, "x")), 2)
    # the manifest is the first of the files, and says nothing of them
    for number in range(1, len([*(lake.indexes / "index").glob("*")])):
        Damage("flip many", number, 0, 1).do(lake.indexes / "index")
    apply(writer, update(3, row(1, "y"), row(2, "y")), 3)
    apply(writer, update(4, row(3, "y")), 4)
    assert writer.rows.notes == ["the index of public.things was damaged: its keys are read again"]
    changed: dict[Key, Row] = {(key,): row(key, "y") for key in (1, 2, 3)}
    assert read_by_delta_rs(lake) == by_id({**COPY, **changed})


def test_the_index_is_rebuilt_after_the_lake_is_put_back(lake: PlacedLake, tmp_path: Path) -> None:
    """The index dropped rows that live again, in files that it knows."""
    before = tmp_path / "before"
    shutil.copytree(lake.disk(THINGS.name), before)
    writer = open_writer(lake)
    for rank in range(1, 12):
        apply(writer, update(rank, *(row(key, f"at {rank}") for key in KEYS)), rank)
    writer.save_index(everything=True)
    shutil.rmtree(lake.disk(THINGS.name))
    shutil.copytree(before, lake.disk(THINGS.name))
    writer = open_writer(lake)
    # as many versions as there were, so that a number alone would fit
    for rank in range(1, 13):
        apply(writer, update(rank, *(row(key, f"again {rank}") for key in KEYS)), rank)
    assert writer.rows.notes == ["the index of public.things is of another past of the table: its keys are read again"]
    assert read_by_delta_rs(lake) == by_id({(key,): row(key, "again 12") for key in KEYS})


def test_an_intact_index_is_not_rebuilt(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = open_writer(lake)
    apply(writer, update(1, row(1, "x")), 1)
    writer.save_index(everything=True)
    again = open_writer(lake)
    monkeypatch.setattr(IndexedRows, "_read_fingerprints", lambda *_: pytest.fail("keys are read again"))
    apply(again, update(2, row(1, "y")), 2)
    assert again.rows.notes == []
