"""The newest changes are cached for followers in the same process, within bounds."""

import pyarrow as pa

from cdc.columns.feed import FeedRows
from cdc.sinks.lake.feed.change_cache import ENTRY_BYTES, MAX_VERSIONS, ChangeCache, RecentChanges


def rows(count: int) -> RecentChanges:
    ids = pa.table({"id": pa.array(range(count), pa.int64())})
    return RecentChanges(FeedRows(ids, ids.slice(0, 0)), file_bytes=1)


def test_the_newest_versions_of_small_commits_are_cached() -> None:
    recent = ChangeCache()
    for version in range(3 * MAX_VERSIONS):
        recent.put("busy", version, rows(1))
    recent.put("quiet", 1, rows(1))
    assert recent.get("busy", 2 * MAX_VERSIONS - 1) is None
    assert recent.get("busy", 2 * MAX_VERSIONS) is not None
    assert recent.get("quiet", 1) is not None


def test_the_overhead_of_arrays_counts() -> None:
    recent = ChangeCache(10 * ENTRY_BYTES)
    for version in range(20):
        recent.put(f"table {version}", version, rows(1))
    assert [version for version in range(20) if recent.get(f"table {version}", version)] == list(range(11, 20))


def test_a_cache_of_size_zero_stores_nothing() -> None:
    recent = ChangeCache(0)
    recent.put("table", 1, rows(1))
    assert recent.get("table", 1) is None
