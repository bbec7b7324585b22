"""The flights' files and the workload over them: what is planned can be carried out, and is the same for a seed."""

import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from cdc.core.errors import PreconditionError
from cdc.demo.flights import data, workload
from cdc.demo.flights.data import KEYS, data_files, open_csv
from cdc.demo.flights.workload import DeleteRow, ExistingKeys, InsertRow, Key, PlannedTransaction, UpdateRow

ROWS = {"airlines": 16, "airports": 1_458, "planes": 3_322, "flights": 336_776, "weather": 26_115}
DAY = datetime(2013, 5, 17, tzinfo=UTC)
SEEDS = st.integers(0, 2**32)


def stock(flights: int = 40, planes: int = 12) -> ExistingKeys:
    hours = [DAY + timedelta(hours=n % 20) for n in range(flights)]
    return ExistingKeys(
        flights=[(hour, ("UA", "AA")[n % 2], n) for n, hour in enumerate(hours)],
        planes=[(f"N{n}",) for n in range(planes)],
        weather=[("JFK", DAY), ("EWR", DAY)],
        airlines=[("UA",), ("AA",)],
    )


def carried_out(start: ExistingKeys, plan: list[PlannedTransaction]) -> dict[str, dict[Key, dict[str, Any]]]:
    """The tables after the plan, as Postgres would have them; a step that it would refuse raises KeyError."""
    firsts = {"flights": start.flights, "planes": start.planes, "weather": start.weather, "airlines": start.airlines}
    tables = {table: {key: dict(zip(KEYS[table], key, strict=True)) for key in keys} for table, keys in firsts.items()}
    for transaction in plan:
        after = {table: dict(rows) for table, rows in tables.items()}
        for work in transaction.changes:
            _one(after[work.table], work)
        tables = after if transaction.is_committed else tables
    return tables


def _one(rows: dict[Key, dict[str, Any]], work: InsertRow | UpdateRow | DeleteRow) -> None:
    row = {} if isinstance(work, InsertRow) else rows.pop(work.key)
    if isinstance(work, DeleteRow):
        return
    row = {**row, **(work.row if isinstance(work, InsertRow) else work.values)}
    key = tuple(row[name] for name in KEYS[work.table])
    if key in rows:
        raise KeyError(key)
    rows[key] = row


def test_the_files_are_found_without_the_package() -> None:
    import sys

    files = data_files()
    assert set(files) == set(KEYS)
    assert data.PACKAGE not in sys.modules


@pytest.mark.parametrize("table", KEYS)
def test_the_files_are_as_expected(table: str) -> None:
    with open_csv(data_files()[table]) as file:
        # as texts, of the key alone: the flights have nineteen columns and a third of a million rows
        only = csv.ConvertOptions(include_columns=KEYS[table], column_types=dict.fromkeys(KEYS[table], pa.string()))
        keys = csv.read_csv(file, convert_options=only)
    assert len(keys) == keys.group_by(list(KEYS[table])).aggregate([]).num_rows == ROWS[table]
    assert not any({"", data.UNKNOWN} & set(column.unique().to_pylist()) for column in keys.columns)


def test_a_packed_file_is_read_like_a_plain_one(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.csv", tmp_path / "a.csv.zip"
    plain.write_bytes(b"a,b\n1,NA\n")
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.csv", plain.read_bytes())
    with open_csv(plain) as one, open_csv(packed) as other:
        assert one.read() == other.read()


def test_a_missing_data_set_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "PACKAGE", "no-such-package")
    with pytest.raises(PreconditionError, match="no-such-package is not installed → pip install"):
        data_files()


@given(SEEDS, st.integers(0, 600))
def test_a_seed_gives_one_plan(seed: int, changes: int) -> None:
    plan = list(workload.plan(seed, stock(), changes))
    assert plan == list(workload.plan(seed, stock(), changes))
    done = sum(len(each.changes) for each in plan if each.is_committed)
    assert done >= changes
    assert not plan or done - (len(plan[-1].changes) if plan[-1].is_committed else 0) < changes


@given(SEEDS, st.integers(10, 60), st.integers(1, 20), st.integers(1, 600))
def test_every_step_of_a_plan_can_be_carried_out(seed: int, flights: int, planes: int, changes: int) -> None:
    start = stock(flights, planes)
    tables = carried_out(start, list(workload.plan(seed, start, changes)))
    assert len(tables["flights"]) >= 1
    assert len(tables["planes"]) >= 1


def test_a_long_plan_has_everything_in_it() -> None:
    plan = list(workload.plan(2013, stock(), 5_000))
    assert {each.kind for each in plan} == set(workload.WEIGHTS)
    assert {each.is_committed for each in plan} == {True, False}
    assert any(len({work.table for work in each.changes}) > 1 for each in plan)
    assert any(_changes_a_key_twice(each) for each in plan)
    assert any(isinstance(w, UpdateRow) and "flight" in w.values for each in plan for w in each.changes)


def _changes_a_key_twice(transaction: PlannedTransaction) -> bool:
    keys = [work.key for work in transaction.changes if isinstance(work, UpdateRow)]
    return len(set(keys)) < len(keys)
