"""Every reader computes the same digest, without dead rows."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from cdc.columns.rows import digest as digests
from cdc.columns.rows.digest import digest_of_copy
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import PreconditionError
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Column, Kind, Table, TableName
from cdc.run.verify.chains import digest_batches, digest_rows
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.scan import LakeCopy
from cdc.sinks.lake.feed import small_tables
from cdc.sinks.lake.feed.digest import compute_digest, digest_of_files
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.feed.small_tables import hold_small
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.history.chain import BLOCK_ROWS
from cdc.sinks.lake.history.shape import BATCH, CHAIN, SEQUENCE
from cdc.sinks.lake.settings import DeltaSettings
from cdc.views.spark.frames import open_rows
from tests.support.histories import THINGS
from tests.support.lake.places import PLACES, PlacedLake, in_folder, place_lake
from tests.support.lake.tables import apply, open_writer, row, update, write_copy


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    # delta-rs decodes no such path as it stands
    return place_lake(request, tmp_path / "100%25 of it")


def fill_table(lake: PlacedLake, count: int) -> None:
    """A table of `count` rows in the first cut; two rows changed since its copy."""
    follower = DeltaFollower(DeltaSettings(kind="delta", path=lake.path), lake, lake.indexes / "index")
    follower.prepare([THINGS])
    files = [write_copy(lake, THINGS, [row(n, f"t{n}") for n in range(start, count, 2)]) for start in range(2)]
    follower.load(THINGS, files, Bookmark(Lsn(1), 4711, 1))
    apply(open_writer(lake), update(1, row(7, "new"), row(900, None)), 1)
    follower.first_cut(0)


def test_the_chosen_reader_digests_the_live_rows(lake: PlacedLake, spark: SparkSession) -> None:
    fill_table(lake, 500)
    log = layout.open_owned_log(lake, THINGS.name)
    assert log is not None
    copy = LakeCopy(spark, THINGS, lake.table_storage(THINGS.name), [*log.snapshot.files.values()])
    own = digest_of_copy(copy, THINGS)
    assert own.rows == 501
    assert digest_of_files(copy) == own
    assert compute_digest(lake, LakeFeed(lake.for_spark(spark), lake), THINGS) == own


def test_both_readers_give_the_same_digest(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = in_folder(tmp_path)
    fill_table(lake, 500)
    # without Spark: it is not asked
    small = compute_digest(lake, LakeFeed(None, lake), THINGS)
    monkeypatch.setattr(digests, "SMALL_BYTES", 0)
    assert compute_digest(lake, LakeFeed(spark, lake), THINGS) == small
    assert small.rows == 501


def test_rows_that_cannot_be_held_are_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many bytes, too large files, a column or a file that is not there."""
    lake = in_folder(tmp_path)
    fill_table(lake, 100)
    held = hold_small(lake, THINGS)
    assert held is not None
    assert held.num_rows == 101
    wider = replace(THINGS, columns=(*THINGS.columns, Column("later", Kind.TEXT)))
    assert hold_small(lake, wider) is None
    for module, name in ((small_tables, "HELD_BYTES"), (digests, "SMALL_BYTES")):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, 0)
            assert hold_small(lake, THINGS) is None
    for file in lake.disk(THINGS.name).glob("*.parquet"):
        file.unlink()
    assert hold_small(lake, THINGS) is None


HISTORY = Table(
    TableName("public", "things_history"),
    (*THINGS.columns, Column(BATCH, Kind.BIGINT), Column(CHAIN, Kind.TEXT), Column(SEQUENCE, Kind.BIGINT)),
    ("id",),
)


def test_spark_and_this_process_digest_a_chain_alike(spark: SparkSession) -> None:
    """Batches of several blocks, one of which names two chains."""
    places = [(1, "a", n) for n in (0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, 3 * BLOCK_ROWS)]
    places += [(2, "b", 3 * BLOCK_ROWS + 1), (2, "other", 3 * BLOCK_ROWS + 2), (3, "c", 4 * BLOCK_ROWS)]
    rows = [{**row(n, f"t{n}"), BATCH: batch, CHAIN: chain, SEQUENCE: n} for batch, chain, n in places]
    table = pa.Table.from_pylist(rows[::-1], arrow_schema(HISTORY))
    found = digest_batches(open_rows(spark, table, HISTORY), HISTORY).orderBy(BATCH, CHAIN).collect()
    assert [(each[BATCH], each[CHAIN], each["digest"]) for each in found] == digest_rows(table, HISTORY)
    assert [batch[:2] for batch in digest_rows(table, HISTORY)] == [(1, "a"), (2, "b"), (2, "other"), (3, "c")]
    assert digest_rows(table.slice(0, 0), HISTORY) == []


def test_a_missing_column_is_an_error(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    fill_table(lake, 10)
    wider = replace(THINGS, columns=(*THINGS.columns, Column("later", Kind.TEXT)))
    with pytest.raises(PreconditionError, match=r"has no column later in the lake"):
        compute_digest(lake, LakeFeed(None, lake), wider)
