"""A table's pages, shared out among tasks."""

from hypothesis import given
from hypothesis import strategies as st

from cdc.core.table import TableName
from cdc.snapshots.ranges import PAGES_A_RANGE, PageRange, page_ranges

parts = st.dictionaries(
    st.builds(TableName, st.just("public"), st.sampled_from("abcde")),
    st.integers(0, 40) | st.integers(0, 5 * PAGES_A_RANGE),
    min_size=1,
)


@given(parts, st.integers(1, 8))
def test_shares_tile_all_partitions(pages: dict[TableName, int], parallel: int) -> None:
    shares = page_ranges(pages, parallel)
    for part, count in pages.items():
        read = [each for share in shares for each in share if each.part == part]
        if not count and any(pages.values()):
            assert not read
            continue
        starts, stops = [each.start for each in read], [each.stop for each in read]
        # rows that were written behind the last page that is known of belong to the last range
        assert (starts[0], stops[-1]) == (0, None)
        assert starts[1:] == stops[:-1]


@given(parts, st.integers(1, 8))
def test_shares_are_equal_and_a_multiple_of_the_tasks(pages: dict[TableName, int], parallel: int) -> None:
    total = sum(pages.values())
    sizes = [sum(_size(each, pages) for each in share) for share in page_ranges(pages, parallel)]
    assert sum(sizes) == total
    assert max(sizes) <= PAGES_A_RANGE
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) % parallel == 0 or len(sizes) == max(total, 1) < parallel


def _size(each: PageRange, pages: dict[TableName, int]) -> int:
    return (pages[each.part] if each.stop is None else each.stop) - each.start
