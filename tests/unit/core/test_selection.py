"""The tables that entries select: by name, by pattern, and by exclusion."""

import re

from hypothesis import given
from hypothesis import strategies as st

from cdc.core.selection import Selection
from cdc.core.table import TableName

THERE = [TableName(*text.split(".", 1)) for text in ("a.x", "a.y", "a.xy", "b.x", "b.old_x", "public.x", "a.x.y")]


def select_names(*entries: str) -> list[str]:
    return [str(name) for name in Selection.of(entries).select_from(THERE)]


def test_listed_tables() -> None:
    assert select_names("b.x", "a.x") == ["b.x", "a.x"]
    # not there, and named all the same
    assert select_names("c.z") == ["c.z"]
    assert select_names("a.*") == ["a.x", "a.x.y", "a.xy", "a.y"]
    assert select_names("a.y", "a.x*") == ["a.y", "a.x", "a.x.y", "a.xy"]
    assert select_names("*.x") == ["a.x", "b.x", "public.x"]
    assert select_names("*") == ["public.x"]
    assert select_names("*.*", "!*.x", "!b.*") == ["a.x.y", "a.xy", "a.y"]
    # whoever names a table wants it
    assert select_names("b.old_x", "b.*", "!*.old_*") == ["b.old_x", "b.x"]
    # characters that mean something elsewhere mean themselves
    assert select_names("a.[xy]", "a.x?") == ["a.[xy]", "a.x?"]


def test_only_patterns_select_new_tables() -> None:
    assert not Selection.of(["a.x", "!b.*"]).has_patterns
    assert Selection.of(["a.x", "b.*"]).has_patterns


PART = st.text("ab*", min_size=1, max_size=5)
NAME = st.text("ab", min_size=1, max_size=5)


@given(PART, PART, NAME, NAME)
def test_star_matches_any_text(schema: str, table: str, of_schema: str, name: str) -> None:
    matches = all(re.fullmatch(part.replace("*", "[ab]*"), text) for part, text in ((schema, of_schema), (table, name)))
    assert (TableName(of_schema, name) in Selection.of([f"{schema}.{table}"])) == matches
