"""Equal tables have equal digests, however their rows are read; others have not."""

import random

from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.rows.digest import Digest, digest_of

ROWS = st.lists(st.binary(max_size=6), max_size=30)


@given(ROWS, st.integers(), st.integers(1, 5))
def test_digest_does_not_depend_on_order_or_tasks(rows: list[bytes], seed: int, tasks: int) -> None:
    shuffled = random.Random(seed).sample(rows, len(rows))
    parts = [digest_of(shuffled[task::tasks]) for task in range(tasks)]
    assert sum(parts, Digest()) == digest_of(rows)


@given(ROWS, ROWS)
def test_only_equal_tables_have_equal_digests(ours: list[bytes], theirs: list[bytes]) -> None:
    assert (digest_of(ours) == digest_of(theirs)) == (sorted(ours) == sorted(theirs))


@given(ROWS.filter(bool), st.data())
def test_duplicate_row_counts_twice(rows: list[bytes], data: st.DataObject) -> None:
    twice = data.draw(st.sampled_from(rows))
    found = digest_of([*rows, twice])
    assert found.rows == len(rows) + 1
    assert found.total != digest_of(rows).total


def test_empty_table_has_the_empty_digest() -> None:
    assert digest_of([]) == Digest()
