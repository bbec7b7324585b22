"""The newest values of a topic have one digest, however many of its keys are held at a time."""

from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.rows.digest import digest_of
from cdc.sinks.latest.read import newest_values

RECORDS = st.lists(st.tuples(st.binary(max_size=2), st.none() | st.binary(max_size=3)), max_size=60)


@given(RECORDS, st.integers(1, 8))
def test_as_a_table_that_is_held_whole(records: list[tuple[bytes, bytes | None]], most: int) -> None:
    newest = {key: value for key, value in dict(records).items() if value is not None}
    assert newest_values(lambda: records, most) == digest_of(newest.values())
