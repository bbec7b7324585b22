"""Rows by the values of columns, and their changes from version to version, against the model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.core.change import Key, Row
from cdc.sinks.lake import layout
from cdc.sinks.lake.table import indexed_rows
from cdc.sinks.lake.table.compact import compact_files
from cdc.sinks.lake.table.lookup import ROW, TableLookup
from cdc.sinks.lake.table.writer import TableWriter
from tests.support.histories import THINGS, Sent, histories
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables import apply, copy_rows, open_writer, row, update

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


def test_too_many_changes_are_not_read(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, list(BEFORE.values()))
    writer = open_writer(lake)
    lookup = open_lookup(lake, writer.snapshot.version)
    apply(writer, update(1, row(1, "x"), row(2, "y")), 1)
    # two old rows and two new ones
    assert open_lookup(lake, lookup.snapshot.version).advance(writer.snapshot.version, COLUMNS, 4) is not None
    assert lookup.advance(writer.snapshot.version, COLUMNS, 3) is None
    assert [each["big"] for each in rows_of(lookup.find(["id"], [pa.array([1], pa.int32())], COLUMNS))] == ["x"]


def test_copies_of_rows_may_be_missing_or_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed_rows, "MIN_COPIED_ROWS", 1)
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
    assert find_ids(lookup, 3, 50, 99) == wanted
    lookup.row_files.settle()
    assert find_ids(lookup, 3, 50, 99) == wanted
    assert file.read_bytes() != damaged


def find_ids(lookup: TableLookup, *ids: int) -> list[Row]:
    return rows_of(lookup.find(["id"], [pa.array(ids, pa.int32())], COLUMNS))
