"""Shares of a table's files cover each live row once, and no dead row."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap
from pyspark.sql import SparkSession

from cdc.columns.names import KafkaColumn
from cdc.columns.rows.documents import documents_of
from cdc.columns.types.arrow_types import arrow_schema
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.deletion_vectors import VectorFile
from cdc.sinks.lake.delta.scan import MIN_SHARE_BYTES, LakeCopy, Share, live_rows, split_files
from cdc.sinks.lake.delta.snapshot import DataFile
from cdc.sinks.lake.storage.base import LocalFolder
from tests.support.histories import THINGS
from tests.support.lake.places import PLACES, PlacedLake, place_lake
from tests.support.lake.tables import apply, copy_rows, open_writer, row, update


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    return place_lake(request, tmp_path)


def rows_of(ids: range) -> pa.Table:
    return pa.Table.from_pylist([dict(row(number, f"t{number}")) for number in ids], arrow_schema(THINGS))


@given(st.data())
def test_shares_cover_every_live_row_once(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 60), "rows")
    gone = data.draw(st.sets(st.integers(0, max(count - 1, 0)), max_size=count), "gone")
    group, shares = data.draw(st.integers(1, 20), "rows a group"), data.draw(st.integers(1, 9), "shares")
    with TemporaryDirectory() as root:
        storage, vectors = LocalFolder(root), VectorFile()
        pq.write_table(rows_of(range(count)), Path(root) / "f.parquet", row_group_size=group)
        vector = vectors.add(BitMap(gone)) if gone else None
        storage.write(vectors.path, vectors.content)
        file = DataFile("f.parquet", 1, count, "{}", 0, vector)
        parts = [part for n in range(shares) for part in live_rows(storage, Share(file, n, shares), THINGS)]
    rows = pa.concat_tables([arrow_schema(THINGS).empty_table(), *parts])
    assert rows.equals(rows_of(range(count)).take(pa.array(sorted({*range(count)} - gone), pa.int64())))


@given(st.lists(st.integers(0, 400), max_size=20), st.integers(1, 16))
def test_files_split_into_complete_even_shares(megabytes: list[int], tasks: int) -> None:
    files = [DataFile(f"{n}", size * MIN_SHARE_BYTES, 1, "{}", 0) for n, size in enumerate(megabytes)]
    shares = split_files(files, tasks)
    for file in files:
        own = [share for share in shares if share.file is file]
        assert [*np.concatenate([share.groups(1000) for share in own])] == [*range(1000)]
    usual = max(sum(file.size for file in files) // tasks, MIN_SHARE_BYTES)
    assert all(share.file.size / share.count <= usual for share in shares)


def test_a_lake_copy_has_the_rows_of_its_version(lake: PlacedLake, spark: SparkSession) -> None:
    copy_rows(lake, THINGS, [row(number, f"t{number}") for number in range(500)], files=3)
    apply(open_writer(lake), update(1, row(7, "new"), row(900, None)), 1)
    log = layout.open_owned_log(lake, THINGS.name)
    assert log is not None
    # a later version has nothing to do with it
    apply(open_writer(lake), update(2, row(8, "newer")), 2)
    copy = LakeCopy(spark, THINGS, lake.table_storage(THINGS.name), [*log.snapshot.files.values()])
    documents = {record[KafkaColumn.KEY]: record[KafkaColumn.VALUE] for record in documents_of(copy, THINGS).collect()}
    assert len(documents) == 501
    assert documents['{"id":7}'] == '{"id":7,"small":7,"big":"new"}'
    assert documents['{"id":8}'] == '{"id":8,"small":8,"big":"t8"}'
    assert documents['{"id":900}'] == '{"id":900,"small":900,"big":null}'


def test_a_lake_copy_of_no_files_is_empty(lake: PlacedLake, spark: SparkSession) -> None:
    assert documents_of(LakeCopy(spark, THINGS, lake.table_storage(THINGS.name), []), THINGS).count() == 0
