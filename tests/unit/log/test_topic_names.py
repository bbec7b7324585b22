"""Two tables never share a topic: where their names would, the second one is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.core.table import TableName
from cdc.log.names import change_topic, find_shared_topics, latest_topic

PARTS = st.text("ab.-_ $ß\"'", min_size=1, max_size=4)
NAMES = st.builds(TableName, PARTS, PARTS)


@given(st.lists(NAMES, unique=True, max_size=12))
def test_whoever_is_not_refused_has_topics_of_its_own(names: list[TableName]) -> None:
    refused = find_shared_topics("p", names, change_topic, latest_topic)
    fit = [name for name in names if name not in refused]
    topics = [topic_of("p", name).replace(".", "_") for name in fit for topic_of in (change_topic, latest_topic)]
    assert len(set(topics)) == len(topics) == 2 * len(fit)
    assert all(len(find_shared_topics("p", [name], change_topic, latest_topic)) == 0 for name in fit)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (TableName("a", "b_c"), TableName("a_b", "c")),
        (TableName("latest", "a_b"), TableName("a", "b")),
    ],
)
def test_names_that_topics_cannot_tell_apart(first: TableName, second: TableName) -> None:
    assert list(find_shared_topics("p", [first, second], change_topic, latest_topic)) == [second]


@given(NAMES, NAMES)
def test_no_two_tables_have_one_topic(first: TableName, second: TableName) -> None:
    for topic_of in (change_topic, latest_topic):
        assert (topic_of("p", first) == topic_of("p", second)) == (first == second)


@given(st.builds(TableName, st.text(min_size=1, max_size=63), st.text(min_size=1, max_size=63)))
def test_every_name_is_one_that_a_topic_can_have(name: TableName) -> None:
    # Kafka, `Topic.validate`
    assert re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", latest_topic("p" * 100, name))


def test_a_name_that_looks_as_if_it_had_a_digest_gets_one() -> None:
    odd = change_topic("p", TableName("a", "odd name"))
    assert odd.startswith("p.a.odd_name-")
    assert change_topic("p", TableName("a", odd.removeprefix("p.a."))) != odd
    assert change_topic("p", TableName("a", "plain_name-x")) == "p.a.plain_name-x"


def test_names_that_differ_by_case_have_topics_of_their_own() -> None:
    assert not find_shared_topics(
        "p", [TableName("a", "b"), TableName("a", "B"), TableName("A", "b")], change_topic, latest_topic
    )
