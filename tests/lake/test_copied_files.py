"""A copy's files hold its rows, and what the log says of them is what was counted while they were written."""

import json
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.arrow_types import arrow_schema
from cdc.core.table import Column, Kind, Table, TableName
from sinks.lake import data_files, statistics
from sinks.lake.copied_files import CopyWriter
from sinks.lake.storage import Folder
from tests.lake.places import PLACES, PlacedLake, placed

KINDS = Table(
    TableName("public", "kinds"),
    (
        Column("id", Kind.INTEGER),
        Column("text", Kind.TEXT),
        Column("real", Kind.DOUBLE),
        Column("day", Kind.DATE),
        Column("at", Kind.TIMESTAMP),
        Column("yes", Kind.BOOLEAN),
    ),
    ("id",),
)
values = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**31), 2**31 - 1),
        "text": st.none() | st.text(max_size=40),
        "real": st.none() | st.floats(),
        "day": st.none() | st.dates(date(1, 1, 1), date(9999, 12, 31)),
        "at": st.none() | st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),
        "yes": st.none() | st.booleans(),
    }
)


def batches(parts: Sequence[Sequence[dict[str, Any]]]) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist(list(part), arrow_schema(KINDS)) for part in parts]


@given(st.lists(st.lists(values, max_size=5), max_size=4))
def test_statistics_of_parts_are_those_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[dict[str, Any]]]
) -> None:
    storage = Folder(str(tmp_path_factory.mktemp("copy")))
    found = CopyWriter(KINDS, storage)(batches(parts))
    whole = pa.Table.from_batches(batches(parts), arrow_schema(KINDS))
    assert json.loads(found.statistics) == statistics.of_rows(whole, KINDS.column_names)
    assert (found.rows, found.bytes) == (len(whole), len(storage.read(found.path)))


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    return placed(request, tmp_path)


def test_large_values_have_row_groups_of_their_own(lake: PlacedLake) -> None:
    """A few old values are read with their row groups, so these are bounded in bytes as well."""
    text = {"real": None, "day": None, "at": None, "yes": None}
    rows = [{"id": n, "text": str(n) + "x" * 100_000, **text} for n in range(400)]
    storage = lake.table(KINDS.name)
    storage.make()
    copied = CopyWriter(KINDS, storage)(batches([rows]))
    file = pq.ParquetFile(storage.open(copied.path))
    largest = max(file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups))
    assert largest < 2 * data_files.ROW_GROUP_BYTES
    assert file.read().to_pylist() == rows
    assert storage.names("") == [copied.path]
