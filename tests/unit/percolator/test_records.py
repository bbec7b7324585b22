"""The records of the topics, and the lines about refused queries."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.core.errors import PreconditionError
from cdc.core.position import Lsn, Position
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.owner import Owner
from cdc.sinks.percolator.matches import Change, Pair
from cdc.sinks.percolator.records import Moment, Reached, event, position_record, presence, to_pair, to_reached
from cdc.sinks.percolator.refusals import MOST_TOLD, find_unmapped, to_remarks, without_foreign
from tests.support.examples import examples

OWNER = Owner("shop", "alerts")
A, B = TableName("public", "a"), TableName("public", "b")
POSITION = Position(3, Lsn(30), 503)
SEARCHES = Table(TableName("public", "searches"), (Column("id", Kind.INTEGER),), ("id",))
keys = st.dictionaries(st.text(), st.integers() | st.text(), min_size=1).map(json.dumps)
tables = st.builds(TableName, st.text(), st.text())


@examples(300)
@given(st.builds(Pair, tables, keys, keys))
def test_a_pair_is_read_from_its_key(pair: Pair) -> None:
    begin, end = (presence(Change(pair, begins), Moment(POSITION, None)) for begins in (True, False))
    assert to_pair(begin.key) == to_pair(end.key) == pair
    assert event(Change(pair, begins=False), Moment(POSITION, None)).key == begin.key
    assert end.value is None


def test_an_event_says_when() -> None:
    change = Change(Pair(A, '{"id":1}', '{"id":7}'), begins=True)
    found = json.loads(event(change, Moment(POSITION, 1_700_000_000_003)).value or b"")
    assert (found["lsn"], found["committed_at"]) == ("0/1E", "2023-11-14T22:13:20.003Z")
    assert json.loads(event(change, Moment(POSITION, None)).value or b"")["committed_at"] is None


def test_the_position_comes_back_with_its_tables() -> None:
    for reached in (Reached(), Reached(POSITION, frozenset({A, B}))):
        value = position_record(OWNER, reached).value or b""
        assert to_reached(value, OWNER, "t") == reached
    with pytest.raises(PreconditionError, match="topic t is another follower's: shop/alerts"):
        to_reached(value, Owner("shop", "others"), "t")
    assert reached.without([A]).current == {B}


UNMAPPED = "No field mapping can be found for the field with name [x]"


def test_a_query_is_for_the_tables_that_have_its_fields() -> None:
    refused = {A: {"1": UNMAPPED, "2": UNMAPPED, "3": "bad"}, B: {"2": UNMAPPED}}
    assert find_unmapped(refused.values()) == {"1", "2"}
    assert without_foreign(refused, {"1"}) == {A: {"2": UNMAPPED, "3": "bad"}, B: {"2": UNMAPPED}}
    # one that is for another table is wrong all the same when it is for another reason
    assert without_foreign(refused, {"1", "2", "3"}) == {A: {"3": "bad"}, B: {}}


def test_many_refusals_are_few_lines() -> None:
    refused = {A: {f'{{"id":{n}}}': "bad" for n in range(MOST_TOLD + 2)}, B: {'{"id":0}': "bad"}}
    told = [*map(str, to_remarks(refused, SEARCHES, "i"))]
    assert len(told) == MOST_TOLD + 1
    assert told[0] == (
        "public.searches: the query where id = 0 is refused for rows of public.a: bad"
        " → correct it; index i has all that are refused"
    )
    assert told[-1] == "public.searches: queries of 2 further rows are refused → index i has all of them"
