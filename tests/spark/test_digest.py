"""Every reader computes the same digest, without dead rows."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc.columns.rows import digest as digests
from cdc.columns.rows.digest import digest_of_copy
from cdc.core.errors import PreconditionError
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Column, Kind
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.scan import LakeCopy
from cdc.sinks.lake.feed.digest import compute_digest
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.settings import DeltaSettings
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
    own = digest_of_copy(
        LakeCopy(spark, THINGS, lake.table_storage(THINGS.name), [*log.snapshot.files.values()]), THINGS
    )
    assert own.rows == 501
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


def test_a_missing_column_is_an_error(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    fill_table(lake, 10)
    wider = replace(THINGS, columns=(*THINGS.columns, Column("later", Kind.TEXT)))
    with pytest.raises(PreconditionError, match=r"has no column later in the lake"):
        compute_digest(lake, LakeFeed(None, lake), wider)
