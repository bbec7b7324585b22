"""Queries that match more rows than there is memory for are refused while they are searched for."""

from hypothesis import given
from hypothesis import strategies as st

from cdc.sinks.percolator.evaluation import _Searched

found = st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("12345678")))


@given(found=found, most=st.integers(0, 20))
def test_whom_a_part_refuses_all_would_refuse(found: dict[str, set[str]], most: int) -> None:
    searched, sizes = _Searched(most), list[int]()
    for key, rows in found.items():
        searched.put(key, rows)
        sizes.append(sum(map(len, searched.found.values())))
    left = dict(found)
    while sum(map(len, left.values())) > most:
        del left[max(left, key=lambda each: (len(left[each]), each))]
    assert searched.found == left
    assert searched.refused.keys() == found.keys() - left.keys()
    assert all(size <= most for size in sizes)
