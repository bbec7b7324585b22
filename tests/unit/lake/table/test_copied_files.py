"""A copy's files hold its rows, and the log's statistics match them."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.lake.delta import data_files, statistics
from cdc.sinks.lake.storage.base import LocalFolder
from cdc.sinks.lake.table.load import LakeCopyWriter
from tests.support.lake.places import PLACES, PlacedLake, in_folder, place_lake
from tests.support.lake.tables import copy_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
def test_merged_statistics_equal_those_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[dict[str, Any]]]
) -> None:
    storage = LocalFolder(str(tmp_path_factory.mktemp("copy")))
    copied_file = LakeCopyWriter(KINDS, storage)(batches(parts))
    whole = pa.Table.from_batches(batches(parts), arrow_schema(KINDS))
    assert json.loads(copied_file.statistics) == statistics.of_rows(whole, KINDS.column_names)
    assert (copied_file.rows, copied_file.bytes) == (len(whole), len(storage.read(copied_file.path)))


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    return place_lake(request, tmp_path)


def test_large_values_have_row_groups_of_their_own(lake: PlacedLake) -> None:
    """Reads of old values fetch whole row groups, so these are bounded in bytes, too."""
    text = {"real": None, "day": None, "at": None, "yes": None}
    rows = [{"id": n, "text": str(n) + "x" * 100_000, **text} for n in range(400)]
    storage = lake.table_storage(KINDS.name)
    storage.make_root()
    copy_rows = LakeCopyWriter(KINDS, storage)(batches([rows]))
    file = pq.ParquetFile(storage.open(copy_rows.path))
    largest = max(file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups))
    assert largest < 2 * data_files.ROW_GROUP_BYTES
    assert file.read().to_pylist() == rows
    assert storage.list_names("") == [copy_rows.path]


NUMBERS = Table(
    TableName("public", "numbers"),
    (
        Column("id", Kind.BIGINT),
        Column("small", Kind.SMALLINT),
        Column("whole", Kind.INTEGER),
        Column("price", Kind.DECIMAL, 7, 2),
        Column("rate", Kind.DECIMAL, 18, 9),
        Column("wide", Kind.DECIMAL, 38, 10),
        Column("day", Kind.DATE),
        Column("at", Kind.TIMESTAMP),
        Column("seen", Kind.TIMESTAMPTZ),
    ),
    ("id",),
)
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
EDGES: Mapping[str, tuple[Any, Any, Any]] = {
    "small": (-(2**15), 2**15 - 1, 1),
    "whole": (-(2**31), 2**31 - 1, 1),
    "price": (Decimal("-99999.99"), Decimal("99999.99"), Decimal("0.01")),
    "rate": (Decimal(-(10**18 - 1)).scaleb(-9), Decimal(10**18 - 1).scaleb(-9), Decimal(1).scaleb(-9)),
    "wide": (Decimal(-(10**28) + 1), Decimal(10**28 - 1), Decimal(1)),
    "day": (FIRST.date(), LAST.date(), timedelta(1)),
    "at": (FIRST, LAST, timedelta(microseconds=1)),
    "seen": (FIRST.replace(tzinfo=UTC), LAST.replace(tzinfo=UTC), timedelta(microseconds=1)),
}
"""The least and the largest of a kind, and the smallest difference that there is."""


def number(n: int, name: str) -> Any:
    """Values close to one edge, close to the other, null, and so on."""
    least, largest, step = EDGES[name]
    return (least + step * n, largest - step * n, None)[n % 3]


def test_all_readers_decode_delta_binary_packed(tmp_path: Path, spark: "SparkSession") -> None:
    """Differences from edge to edge are the largest possible."""
    rows = [{"id": (-1) ** n * (2**63 - 1 - n), **{name: number(n, name) for name in EDGES}} for n in range(10_000)]
    lake, expected = in_folder(tmp_path), pa.Table.from_pylist(rows, arrow_schema(NUMBERS)).sort_by("id")
    copy_rows(lake, NUMBERS, rows)
    [path] = [name for name in lake.table_storage(NUMBERS.name).list_names("") if name.endswith(".parquet")]
    group = pq.ParquetFile(lake.table_storage(NUMBERS.name).open(path)).metadata.row_group(0)
    encodings = {NUMBERS.column_names[n]: group.column(n).encodings for n in range(group.num_columns)}
    assert {name for name, used in encodings.items() if "DELTA_BINARY_PACKED" in used} == {*encodings} - {"wide"}
    folder = lake.folder(NUMBERS.name)
    by_spark = spark.read.format("delta").load(folder).toArrow()
    by_delta_rs = pa.table(QueryBuilder().register("t", DeltaTable(folder)).execute("SELECT * FROM t").read_all())
    for read in (by_spark, by_delta_rs):
        assert read.sort_by("id").cast(expected.schema) == expected


@pytest.mark.parametrize("rows", [1, 100, 131_072, 131_073, 400_000])
def test_no_row_group_is_left_with_a_few_rows(tmp_path: Path, rows: int) -> None:
    """Each group costs a write, a lookup and a read."""
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    table = pa.table([range(rows), ["x" * 70] * rows], schema=schema)
    parts = table.to_batches(max_chunksize=9_000)
    made = data_files.write_in_parts(LocalFolder(str(tmp_path)), "f.parquet", parts, schema, ["id"])
    file = pq.ParquetFile(tmp_path / made.path)
    assert file.read() == table
    sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    # the last group has the rest
    assert min(sizes[:-1], default=max(sizes)) > max(sizes) / 2
