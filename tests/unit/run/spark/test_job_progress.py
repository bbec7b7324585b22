"""Bars advanced by counts: they only grow, and end where the work ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.core.errors import UnreachableError
from cdc.run.spark import job_progress
from cdc.run.spark.job_progress import _CountedBar, track_count
from tests.support.waiting import until

COUNTS = st.integers(0, 50)


@given(COUNTS, st.lists(COUNTS, max_size=20), COUNTS)
def test_bar_moves_neither_back_nor_beyond_its_end(base: int, counts: list[int], rows: int) -> None:
    steps: list[int] = []
    telling = _CountedBar(steps.append, rows, base)
    for count in counts:
        telling.update(count)
        assert all(step > 0 for step in steps)
        assert sum(steps) <= rows
    telling.finish()
    assert sum(steps) == rows


def test_earlier_rows_are_not_counted() -> None:
    steps: list[int] = []
    telling = _CountedBar(steps.append, 10, 100)
    for count in (103, 0, 4):
        telling.update(count)
    assert steps == [3, 1]


def test_failed_count_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def count() -> int:
        asked.append(len(asked))
        if len(asked) == 2:
            raise UnreachableError("gone")
        return asked[-1]

    monkeypatch.setattr(job_progress, "COUNT_SECONDS", 0.01)
    asked: list[int] = []
    steps: list[int] = []
    with track_count(count, steps.append, 7):
        until(lambda: len(asked) > 4, "it is asked again after a failure")
    assert sum(steps) == 7
    assert len(steps) > 1
