"""Folding columns and applying the effect equals applying the changes one by one."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.netting.net_changes import fold
from tests.support.examples import examples
from tests.support.histories import THINGS, Sent, histories
from tests.support.model import Change, Key, Row, apply
from tests.support.model_changes import applied, as_columns

BEFORE: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": f"old {n}"} for n in range(3)}


def folded(rows: dict[Key, Row], changes: list[Change]) -> dict[Key, Row]:
    columns = as_columns(THINGS, changes)
    return applied(THINGS, rows, fold(columns, columns.tx_id))


@examples(500)
@given(histories(BEFORE), st.lists(st.integers(0, 20)), st.randoms(use_true_random=False))
def test_fold_equals_the_model_in_any_order(history: list[Sent], cuts: list[int], random: object) -> None:
    rows = dict(BEFORE)
    bounds = sorted({0, len(history), *(c for c in cuts if c < len(history))})
    for start, end in itertools.pairwise(bounds):
        changes = [change for sent in history[start:end] for change in sent.changes]
        shuffled = [*changes, *changes[::3]]
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        rows = folded(rows, shuffled)
    assert rows == apply(BEFORE, [change for sent in history for change in sent.changes])


@given(histories(BEFORE))
def test_generated_changes_match_the_sources_rows(history: list[Sent]) -> None:
    changes = [change for sent in history for change in sent.changes]
    assert apply(BEFORE, changes) == (history[-1].rows if history else BEFORE)


def test_fold_of_no_changes_is_empty() -> None:
    columns = as_columns(THINGS, [])
    assert fold(columns, np.empty(0, np.int64)).is_empty
