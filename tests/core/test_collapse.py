"""Folding a batch and applying it equals applying its changes one by one."""

import itertools
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from cdc.core.change import UNCHANGED, Change, Insert, Key, Place, Row, Update
from cdc.core.collapse import Upsert, apply_net, collapse
from cdc.core.model import apply
from tests.core.histories import TABLE, Sent, histories

BEFORE: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": f"old {n}"} for n in range(3)}


@given(histories(BEFORE))
def test_net_effect_equals_one_by_one(history: list[Sent]) -> None:
    changes = [change for sent in history for change in sent.changes]
    assert apply_net(BEFORE, collapse(changes)) == apply(BEFORE, changes)


@given(histories(BEFORE))
def test_the_changes_sent_carry_the_rows_that_the_source_has(history: list[Sent]) -> None:
    changes = [change for sent in history for change in sent.changes]
    assert apply(BEFORE, changes) == (history[-1].rows if history else BEFORE)


@given(histories(BEFORE), st.lists(st.integers(0, 20)))
def test_any_cut_into_runs_ends_equal(history: list[Sent], cuts: list[int]) -> None:
    rows = dict(BEFORE)
    bounds = sorted({0, len(history), *(c for c in cuts if c < len(history))})
    for start, end in itertools.pairwise(bounds):
        rows = apply_net(rows, collapse(_changes(history[start:end])))
    assert rows == apply(BEFORE, _changes(history))


def test_unsent_value_follows_the_row_to_its_new_key() -> None:
    moved = Insert(TABLE, Place(1, 2), (9,), {"id": 9, "small": 0, "big": UNCHANGED}, moved_from=(1,))
    again = Update(TABLE, Place(2, 1), (9,), {"id": 9, "small": 5, "big": UNCHANGED})
    net = collapse([moved, again])
    assert net.effects[(9,)] == Upsert({"id": 9, "small": 5, "big": UNCHANGED}, base=(1,))


def _changes(history: Iterable[Sent]) -> list[Change]:
    return [change for sent in history for change in sent.changes]
