"""Copies of rows: what was written is read, any damage is found, and what a killed process left goes."""

import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from errno import ENOSPC
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.sinks.lake.table import row_files
from cdc.sinks.lake.table.row_files import DamagedRowsError, RowFiles

SCHEMA = pa.schema(
    {
        "b": pa.bool_(),
        "i": pa.int32(),
        "t": pa.string(),
        "d": pa.decimal128(38, 2),
        "f": pa.float64(),
        "x": pa.binary(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "list": pa.list_(pa.struct({"a": pa.int32()})),
    }
)
VALUES = st.fixed_dictionaries(
    {
        "b": st.none() | st.booleans(),
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "t": st.none() | st.text(max_size=5),
        "d": st.none() | st.decimals(-(10**6), 10**6, places=2),
        "f": st.none() | st.floats(allow_nan=False),
        "x": st.none() | st.binary(max_size=5),
        "day": st.none() | st.dates(date(1, 1, 1)),
        "at": st.none() | st.datetimes(timezones=st.just(UTC)),
        "list": st.none() | st.lists(st.fixed_dictionaries({"a": st.none() | st.integers(0, 9)}), max_size=2),
    }
)
ROWS = st.lists(VALUES, min_size=1, max_size=20).map(lambda rows: pa.Table.from_pylist(rows, SCHEMA))
ROW = {"b": True, "i": 1, "t": "abc", "d": Decimal("1.25"), "f": 0.5, "x": b"x", "day": date(2026, 1, 1)} | {
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "list": [{"a": 1}],
}


def numbered(count: int) -> pa.Table:
    return pa.Table.from_pylist([{**ROW, "i": number} for number in range(count)], SCHEMA)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "BATCH_ROWS", 4)


@pytest.mark.usefixtures("small_batches")
@given(ROWS, st.data())
def test_any_rows_are_read_as_they_were_written(rows: pa.Table, data: st.DataObject) -> None:
    # a slice shares the buffers of the whole
    rows = rows.slice(data.draw(st.integers(0, rows.num_rows - 1)))
    split = data.draw(st.integers(0, rows.num_rows))
    numbers = data.draw(st.lists(st.integers(0, rows.num_rows - 1), max_size=10))
    names = data.draw(st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True))
    with tempfile.TemporaryDirectory() as folder:
        copies = RowFiles(Path(folder), SCHEMA)
        copies.write("a", lambda: [rows.slice(0, split), rows.slice(split)])
        found = copies.read("a", rows.num_rows, np.array(numbers, np.int64), names)
    assert found is not None
    assert found.to_pylist() == rows.take(pa.array(numbers, pa.int64())).select(names).to_pylist()


@pytest.mark.usefixtures("small_batches")
@given(st.data())
def test_any_changed_byte_is_found_or_changes_no_value(data: st.DataObject) -> None:
    rows = numbered(9)
    with tempfile.TemporaryDirectory() as folder:
        copies = RowFiles(Path(folder), SCHEMA)
        copies.write("a", lambda: [rows])
        [file] = Path(folder).rglob("*.rows")
        content = bytearray(file.read_bytes())
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
        file.write_bytes(content)
        try:
            found = copies.read("a", 9, np.arange(9), SCHEMA.names)
        except DamagedRowsError:
            assert not file.exists()
        else:
            assert found is not None
            assert found.equals(rows)


def test_a_file_in_anothers_place_is_found(tmp_path: Path) -> None:
    copies = RowFiles(tmp_path, SCHEMA)
    for path in "ab":
        copies.write(path, lambda: [numbered(3)])
    one, other = tmp_path.rglob("*.rows")
    one.replace(other)
    [path] = [path for path in "ab" if (tmp_path / other.parent / row_files._name(path)).exists()]
    with pytest.raises(DamagedRowsError):
        copies.read(path, 3, np.arange(3), ["i"])


@pytest.mark.parametrize("size", [0, 1, 400])
def test_a_truncated_file_is_found_also_while_it_is_open(tmp_path: Path, size: int) -> None:
    copies = RowFiles(tmp_path, SCHEMA)
    copies.write("a", lambda: [numbered(100)])
    [file] = tmp_path.rglob("*.rows")
    assert copies.find("a", 100)
    with file.open("r+b") as opened:
        opened.truncate(size)
    with pytest.raises(DamagedRowsError, match="not as it was"):
        copies.read("a", 100, np.arange(2), ["i"])
    file.write_bytes(bytes(size))
    with pytest.raises(DamagedRowsError):
        RowFiles(tmp_path, SCHEMA).read("a", 100, np.arange(2), ["i"])
    assert not file.exists()


def test_a_file_of_other_rows_is_found(tmp_path: Path) -> None:
    copies = RowFiles(tmp_path, SCHEMA)
    copies.write("a", lambda: [numbered(3)])
    with pytest.raises(DamagedRowsError, match="no end"):
        copies.find("a", row_files.BATCH_ROWS + 1)


def test_what_a_full_disk_or_a_killed_process_left_is_private_and_goes(tmp_path: Path) -> None:
    copies = RowFiles(tmp_path / "rows", SCHEMA)

    def fail() -> list[pa.Table]:
        assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.rglob("*"))
        raise OSError(ENOSPC, "no space left on device")

    copies.write("a", lambda: [numbered(3)])
    [whole] = tmp_path.rglob("*.rows")
    with pytest.raises(OSError, match="no space"):
        copies.write("b", fail)
    assert [*whole.parent.iterdir()] == [whole]
    for left in ("0" * 32, whole.stem):
        (whole.parent / f"{left}.part").write_bytes(b"half")
    copies.keep("a")
    assert sorted(whole.parent.iterdir()) == [whole.with_suffix(".part"), whole]
    copies.write("a", lambda: [numbered(3)])
    assert [*whole.parent.iterdir()] == [whole]
