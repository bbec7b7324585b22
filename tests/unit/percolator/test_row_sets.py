"""The compact matches are those of plain dicts, whatever comes, goes, is merged, or has the same hash."""

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cdc.sinks.percolator.row_sets import RowSets
from cdc.sinks.percolator.sorted_rows import NOWHERE, Hash, SortedRows
from cdc.sinks.percolator.table_matches import TableMatches
from tests.support.examples import examples

# some begin with others, some have bytes that are no ASCII; of the hashes, most are those of several rows
ROWS = ["", "a", "ab", "a\0", "\0", "é", "éa", "ÿ", '{"id":1}', '{"id":12}', "🚤", "b"]
QUERIES = "pqrs"
NUMBERS = 5
rows = st.sampled_from(ROWS) | st.text(max_size=3)
hashes = st.sampled_from([hash, len, lambda _: 0, lambda _: -1, lambda row: len(row) << 31])
unsorted = st.integers(0, 4)


@examples(500)
@given(st.lists(st.tuples(rows, st.integers(0, NUMBERS - 1)), max_size=60), unsorted, hashes)
def test_each_row_has_its_number(steps: list[tuple[str, int]], most: int, hash_of: Hash) -> None:
    there, wanted = RowSets(most, hash_of), defaultdict[str, int](int)
    for row, number in steps:
        before = list[int]()
        there.update(row, lambda found, number=number, before=before: before.append(found) or number)  # type: ignore[misc]
        assert before == [wanted[row]]
        wanted[row] = number
        assert all(there.number_of(each) == wanted[each] for each in {*ROWS, *wanted})
        is_even = np.arange(NUMBERS) % 2 == 0
        is_even[0] = False
        found = [*there.select(is_even)]
        assert dict(found) == {row: number for row, number in wanted.items() if is_even[number]}
        assert len(found) == len(dict(found))


@examples(500)
@given(
    st.lists(st.tuples(rows, st.sampled_from(QUERIES), st.booleans()), max_size=80),
    st.dictionaries(st.sampled_from(QUERIES), st.sets(rows)),
    unsorted,
    hashes,
)
def test_the_matches_are_those_of_a_dict(
    steps: list[tuple[str, str, bool]], found: dict[str, set[str]], most: int, hash_of: Hash
) -> None:
    there, wanted = TableMatches(RowSets(most, hash_of)), set[tuple[str, str]]()
    for row, query, begins in steps:
        there.put(query, row, begins=begins)
        (wanted.add if begins else wanted.discard)((query, row))
    assert sorted(there.pairs({*QUERIES})) == sorted(wanted)
    assert there.count() == len(wanted)
    assert there.queries() == {query for query, _ in wanted}
    rows_of = {query: {row for by, row in wanted if by == query} for query in QUERIES}
    assert {query: there.count_of(query) for query in QUERIES} == {query: len(rows_of[query]) for query in QUERIES}
    for row in {*ROWS, *(row for row, _, _ in steps)}:
        assert there.queries_of(row) == {query for query, at in wanted if at == row}
    for query, ended in there.ended(found).items():
        assert sorted(ended) == sorted(rows_of[query] - found[query])
        assert {*there.begun(query, found[query], len(ended))} == found[query] - rows_of[query]
    assert {*filter(None, there._sets.sets)} == {tuple(sorted(there.queries_of(row))) for _, row in wanted}


def test_many_rows_are_found_in_their_parts() -> None:
    keys = [f'{{"id":{number}}}' for number in range(5000)]
    there = SortedRows(hash)
    for step in range(5):
        there.add({key: 1 + place % 3 for place, key in enumerate(keys) if place % 5 == step})
    assert [there.numbers[there.find(key)] for key in keys] == [1 + place % 3 for place in range(5000)]
    for key in keys[::2]:
        there.numbers[there.find(key)] = 0
    there.drop_gone()
    assert len(there) == 2500
    assert [key for key in keys if there.find(key) != NOWHERE] == keys[1::2]
    assert dict(there.select(np.array([False, True, True, True]))) == {
        key: 1 + place % 3 for place, key in enumerate(keys) if place % 2
    }
