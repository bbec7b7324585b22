"""What begins and what ends, by what was found: always the whole difference, each once."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from cdc.core.table import TableName
from cdc.sinks.percolator.matches import Change, Found, Matches, Pair
from cdc.sinks.percolator.row_sets import RowSets
from cdc.sinks.percolator.table_matches import TableMatches
from tests.support.examples import examples

TABLE, OTHER = TableName("public", "listings"), TableName("public", "boats")
KEYS = "abcd"
pairs = st.sets(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)))


def of(found: set[tuple[str, str]], table: TableName = TABLE) -> list[Pair]:
    return [Pair(table, query, row) for query, row in sorted(found)]


def matches_of(*pairs: Pair) -> Matches:
    """They are merged at every other row, of which many have the same hash."""
    there = Matches()
    there._tables = defaultdict(lambda: TableMatches(RowSets(1, lambda row: ord(row) % 2)))
    for pair in pairs:
        there.put(Change(pair, begins=True))
    return there


@examples(500)
@given(before=pairs, after=pairs, other=pairs, rows=st.sets(st.sampled_from(KEYS)))
def test_the_differences_lead_to_what_is(
    before: set[tuple[str, str]], after: set[tuple[str, str]], other: set[tuple[str, str]], rows: set[str]
) -> None:
    """Some rows are matched with all queries; the queries of all other differences were searched for."""
    there = matches_of(*of(before), *of(other, OTHER))
    queries = {query for query, row in before ^ after if row not in rows}
    found = Found(
        {row: {query for query, at in after if at == row} for row in rows},
        {query: {row for by, row in after if by == query} for query in queries},
    )
    changes = [*there.changes(TABLE, found)]
    assert {(c.pair.query, c.pair.row) for c in changes if c.begins} == after - before
    assert {(c.pair.query, c.pair.row) for c in changes if not c.begins} == before - after
    assert len(changes) == len(before ^ after)
    for change in (*there.changes(TABLE, found), *changes):
        there.put(change)
    assert {*there.pairs()} == {*of(after), *of(other, OTHER)}
    assert [*there.changes(TABLE, found)] == []
    assert {*there.queries(TABLE)} == {query for query, _ in after}
    assert there.rows_of(TABLE, {*KEYS}) == {key: {row for query, row in after if query == key} for key in KEYS}
    assert all(there.count_of(TABLE, key) == len({row for query, row in after if query == key}) for key in KEYS)


def test_rows_that_match_as_before_end_with_their_query_only() -> None:
    there = matches_of(*of({("a", "b"), ("c", "b"), ("d", "b")}))
    found = Found({}, {"a": set(), "c": set(), "d": {"e"}}, same={"b"}, ended={"a"})
    changes = [*there.changes(TABLE, found)]
    assert changes == [
        Change(Pair(TABLE, "a", "b"), begins=False),
        Change(Pair(TABLE, "d", "e"), begins=True),
    ]
    for change in (*changes, *changes):
        there.put(change)
    assert there.count(TABLE) == 3
    assert there.count(OTHER) == 0


def test_a_pair_of_both_counts_as_the_row_has_it() -> None:
    found = Found({"row": {"query"}}, {"query": set()})
    assert [*Matches().changes(TABLE, found)] == [Change(Pair(TABLE, "query", "row"), begins=True)]
