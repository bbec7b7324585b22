"""Rows by the values of columns, and their changes from version to version, against the model."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.columns.rows.join_fingerprints import join_bits
from cdc.core.position import Lsn
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.lake import layout
from cdc.sinks.lake.index.key_index import KeyIndex
from cdc.sinks.lake.index.run_files import BLOCK
from cdc.sinks.lake.table import copied_rows
from cdc.sinks.lake.table.bounds import ROW_BYTES, TooManyRowsError
from cdc.sinks.lake.table.compact import compact_files
from cdc.sinks.lake.table.lookup import ROW, TableLookup
from cdc.sinks.lake.table.writer import TableWriter
from tests.support.histories import THINGS, Sent, histories
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables import apply, copy_rows, open_writer, row, update
from tests.support.model import CommitOrder, Key, Row, Update

BEFORE: dict[Key, Row] = {(n,): {"id": n, "small": n % 3, "big": None if n == 2 else "x" * (n % 2)} for n in range(4)}
COLUMNS = ("id", "small", "big")


def open_lookup(lake: PlacedLake, version: int) -> TableLookup:
    log = layout.open_owned_log(lake, THINGS.name, version)
    assert log is not None
    return TableLookup(THINGS, lake.table_storage(THINGS.name), log, lake.indexes / "lookup")


def rows_of(found: pa.Table) -> list[Row]:
    found = found.drop_columns([ROW]) if ROW in found.column_names else found
    return sorted(found.to_pylist(), key=lambda values: int(values["id"]))


def of_key(rows: Mapping[Key, Row], keys: Sequence[Key]) -> list[Row]:
    return [dict(rows[key]) for key in sorted(keys)]


@settings(max_examples=60)
@given(st.data())
def test_changes_and_rows_are_the_models(data: st.DataObject) -> None:
    history = data.draw(histories(BEFORE))
    with TemporaryDirectory() as place:
        lake = in_folder(Path(place))
        copy_rows(lake, THINGS, list(BEFORE.values()), files=2)
        writer = open_writer(lake)
        lookup, seen = open_lookup(lake, writer.snapshot.version), dict(BEFORE)
        for rank, sent in enumerate(history, 1):
            apply(writer, sent.changes, rank)
            if data.draw(st.integers(0, 4)) == 0:
                compact(writer)
            if data.draw(st.booleans()):
                continue
            check(lookup, writer.snapshot.version, seen, sent)
            seen = sent.rows
            if data.draw(st.booleans()):
                lookup.save()
                lookup = open_lookup(lake, writer.snapshot.version)


def check(lookup: TableLookup, version: int, seen: Mapping[Key, Row], sent: Sent) -> None:
    changes = lookup.advance(version, COLUMNS)
    assert changes is not None
    old, new = rows_of(changes.old), rows_of(changes.new)
    differing = [key for key in seen.keys() | sent.rows.keys() if seen.get(key) != sent.rows.get(key)]
    assert old == of_key(seen, [key for key in differing if key in seen])
    assert new == of_key(sent.rows, [key for key in differing if key in sent.rows])
    for small in {values["small"] for values in (*seen.values(), *sent.rows.values())}:
        found = lookup.find(["small"], [pa.array([small, 1000], pa.int64())], COLUMNS)
        assert rows_of(found) == of_key(
            sent.rows, [key for key, values in sent.rows.items() if values["small"] == small]
        )
    both = lookup.find(["small", "big"], [pa.array([1, 2], pa.int32()), pa.array(["x", None])], ["id"])
    # rows with a null are found together
    wanted = [
        {"id": key[0]}
        for key, values in sorted(sent.rows.items())
        if (values["small"], values["big"]) == (1, "x") or None in (values["small"], values["big"])
    ]
    assert rows_of(both) == wanted


def compact(writer: TableWriter) -> None:
    compact_files(writer, list(writer.snapshot.files))


def test_files_that_are_gone_have_no_numbers(tmp_path: Path) -> None:
    """Rows are told apart at one version, and a table has new files with each commit, for ever."""
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, [row(key, "") for key in range(9)], files=3)
    writer = open_writer(lake)
    lookup = open_lookup(lake, writer.snapshot.version)
    for rank in range(1, 9):
        apply(writer, update(rank, row(rank, "x"), row(rank - 1, "y")), rank)
        if rank % 3 == 0:
            compact(writer)
        lookup.advance(writer.snapshot.version, COLUMNS)
        places = [
            lookup.find([column], [pa.array(range(9), pa.int32())], ["id"])[ROW].to_pylist()
            for column in ("id", "small")
        ]
        # whatever they are found by
        assert len({*places[0]}) == 9
        assert {*places[0]} == {*places[1]}
        assert len(lookup._file_numbers) <= len(lookup.snapshot.files)


def test_too_many_changes_are_not_read(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, list(BEFORE.values()))
    writer = open_writer(lake)
    lookup = open_lookup(lake, writer.snapshot.version)
    apply(writer, update(1, row(1, "x"), row(2, "y")), 1)
    size = lookup.measure_changes(writer.snapshot.version)
    # two old rows and two new ones, each with a part of its file
    assert 4 * ROW_BYTES < size <= 4 * ROW_BYTES + sum(file.size for file in writer.snapshot.files.values())
    assert open_lookup(lake, lookup.snapshot.version).advance(writer.snapshot.version, COLUMNS, size) is not None
    assert lookup.advance(writer.snapshot.version, COLUMNS, size - 1) is None
    assert [each["big"] for each in rows_of(lookup.find(["id"], [pa.array([1], pa.int32())], COLUMNS))] == ["x"]


def test_rows_that_grow_in_memory_are_measured_so_once_they_were_seen(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, [row(key, "") for key in range(50)])
    writer = open_writer(lake)
    lookup = open_lookup(lake, writer.snapshot.version)
    measured = list[int]()
    for rank in (1, 2):
        apply(writer, update(rank, *(row(key, str(rank) * 10_000) for key in range(50))), rank)
        measured.append(lookup.measure_changes(writer.snapshot.version))
        lookup.advance(writer.snapshot.version, COLUMNS)
    assert 10 * measured[0] < measured[1] < 3 * 50 * 10_000


def test_copies_of_rows_may_be_missing_or_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_rows, "MIN_COPIED_ROWS", 1)
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, [row(key, f"text {key}") for key in range(100)])
    lookup = open_lookup(lake, open_writer(lake).snapshot.version)
    lookup.copy_rows(COLUMNS)
    wanted = [row(key, f"text {key}") for key in (3, 50, 99)]
    assert find_ids(lookup, 3, 50, 99) == wanted
    assert lookup.row_files
    lookup.row_files.settle()
    [path] = lookup.snapshot.files
    assert lookup.row_files.find(path, 100)
    assert find_ids(lookup, 3, 50, 99) == wanted
    [file] = tmp_path.rglob("*.rows")
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2 :] = bytes(len(damaged) - len(damaged) // 2)
    file.write_bytes(damaged)
    # written at another time than the copy, however coarse the clock of the file system is
    os.utime(file, (1, 1))
    assert find_ids(lookup, 3, 50, 99) == wanted
    lookup.row_files.settle()
    assert find_ids(lookup, 3, 50, 99) == wanted
    assert file.read_bytes() != damaged
    lookup.save()
    private = [lake.indexes / "lookup", *(lake.indexes / "lookup").rglob("*")]
    assert {"index.json", file.name} <= {each.name for each in private}
    assert [each for each in private if each.stat().st_mode & 0o077] == []


def test_copies_of_rows_go_with_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of other columns than now."""
    monkeypatch.setattr(copied_rows, "MIN_COPIED_ROWS", 1)
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, [row(key, f"text {key}") for key in range(9)], files=3)
    writer = open_writer(lake)
    lookup = open_lookup(lake, writer.snapshot.version)
    for number, columns in enumerate((["big"], COLUMNS)):
        lookup.copy_rows(columns)
        assert len(find_ids(lookup, *range(9), names=["id"])) == 9
        assert lookup.row_files
        lookup.row_files.settle()
        assert len([*tmp_path.rglob("*.rows")]) == 3 + 3 * number
    compact(writer)
    lookup.advance(writer.snapshot.version, COLUMNS)
    assert len(find_ids(lookup, *range(9))) == 9
    assert lookup.row_files
    lookup.row_files.settle()
    assert len([*tmp_path.rglob("*.rows")]) == 1


def test_a_value_with_very_many_rows_is_not_read(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, [{**row(key, "x" if key else None), "small": int(key > 5)} for key in range(200)])
    log = layout.open_owned_log(lake, THINGS.name, open_writer(lake).snapshot.version)
    assert log
    lookup = TableLookup(THINGS, lake.table_storage(THINGS.name), log, lake.indexes / "lookup", most_bytes=10_000)
    assert lookup.find(["small"], [pa.array([0], pa.int64())], COLUMNS).num_rows == 6
    with pytest.raises(TooManyRowsError, match=r"rows of public\.things with the same small are too many"):
        lookup.find(["small"], [pa.array([0, 1], pa.int64())], COLUMNS)
    lookup.save()
    index = KeyIndex.open(lake.indexes / "lookup" / "small", log.snapshot.table_id + " by small", lambda _: True)
    ones = join_bits([pa.array([1], pa.int64())])
    # from the file, without a look at its entries, to a block at each end
    assert 194 - 2 * BLOCK <= index.estimate(ones) <= 194


def test_a_column_that_is_added_is_read_from_then_on(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, list(BEFORE.values()))
    writer = open_writer(lake)
    lookup = open_lookup(lake, writer.snapshot.version)
    wider = replace(THINGS, columns=(*THINGS.columns, Column("added", Kind.INTEGER)))
    writer.add_columns(wider, Lsn(5))
    lookup.advance(writer.snapshot.version, COLUMNS)
    apply(writer, [Update(THINGS.name, CommitOrder(9, 1), (1,), {**BEFORE[1,], "added": 7})], 9)
    changes = lookup.advance(writer.snapshot.version, [*COLUMNS, "added"])
    assert changes
    assert [each["added"] for each in changes.new.to_pylist()] == [7]
    assert [each["added"] for each in changes.old.to_pylist()] == [None]
    [found] = rows_of(lookup.find(["id"], [pa.array([1], pa.int32())], [*COLUMNS, "added"]))
    assert found["added"] == 7


@pytest.mark.parametrize(
    ("old", "new", "is_change"),
    [
        (0.0, -0.0, True),
        (0.0, 0.0, False),
        (float("nan"), float("nan"), False),
        (float("nan"), 1.0, True),
        (None, 0.0, True),
        (None, None, False),
    ],
)
@pytest.mark.parametrize("kind", [Kind.DOUBLE, Kind.REAL], ids=str)
def test_a_change_is_one_of_bits(
    tmp_path: Path, kind: Kind, old: float | None, new: float | None, is_change: bool
) -> None:
    table = Table(TableName("public", "f"), (Column("id", Kind.INTEGER), Column("f", kind)), ("id",))
    lake = in_folder(tmp_path)
    copy_rows(lake, table, [{"id": 1, "f": old}])
    writer = open_writer(lake, table)
    log = layout.open_owned_log(lake, table.name, writer.snapshot.version)
    assert log
    lookup = TableLookup(table, lake.table_storage(table.name), log, lake.indexes / "lookup")
    apply(writer, [Update(table.name, CommitOrder(9, 1), (1,), {"id": 1, "f": new})], 9)
    changes = lookup.advance(writer.snapshot.version, ["f"])
    assert changes
    assert changes.new.num_rows == is_change


def find_ids(lookup: TableLookup, *ids: int, names: Sequence[str] = COLUMNS) -> list[Row]:
    return rows_of(lookup.find(["id"], [pa.array(ids, pa.int32())], names))
