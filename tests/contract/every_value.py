"""Every kind of column comes back from a follower as it was loaded."""

from pyspark.sql import SparkSession

from cdc.columns.feed import FedFollower
from cdc.columns.rows.held import digest_copy, rows_as_held
from cdc.core.position import Bookmark
from tests.contract.fed import copy_of_frame
from tests.support.every_kind import EVERY_KIND, every_kind_rows


def check_every_value(spark: SparkSession, follower: FedFollower, mark: Bookmark) -> None:
    """Load a table with values at the edges of each kind; the follower has none of its rows before."""
    rows = every_kind_rows(spark)
    assert follower.write_count(EVERY_KIND.name) == 0
    copy = copy_of_frame(rows, EVERY_KIND)
    follower.load(EVERY_KIND, copy, mark)
    assert not follower.stops(), follower.stops()
    assert follower.write_count(EVERY_KIND.name) == rows.count()
    found, held = follower.rows(EVERY_KIND), follower.held(EVERY_KIND)
    rows = rows_as_held(copy, EVERY_KIND, held) if held else rows
    assert found.dtypes == rows.dtypes
    assert found.count() == 4
    assert found.exceptAll(rows).isEmpty()
    assert rows.exceptAll(found).isEmpty()
    assert follower.digest(EVERY_KIND) == digest_copy(copy, EVERY_KIND, held)
