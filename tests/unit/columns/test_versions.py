"""Every version of a row, as somebody sees it who looks after each change of a transaction."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.netting.versions import list_versions
from tests.support.examples import examples
from tests.support.histories import THINGS, Sent, histories
from tests.support.model import Change, Key, Row, Truncate, apply
from tests.support.model_changes import as_columns, bits_of

BEFORE: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": f"old {n}"} for n in range(3)}


def versions_by_model(rows: dict[Key, Row], changes: list[Change]) -> list[Row | None]:
    """The row of each change's key after that change; None where there is none.

    From the beginning each time: the delete and the insert of a moved row belong together.
    """
    states = [apply(rows, changes[: count + 1]) for count in range(len(changes))]
    keys = [None if isinstance(change, Truncate) else change.key for change in changes]
    return [state.get(key) if key else None for key, state in zip(keys, states, strict=True)]


def versions_of(rows: dict[Key, Row], changes: list[Change], random: Random) -> list[Row | None]:
    """The same by columns, with the changes in any order, and some of them twice."""
    shuffled = [*changes, *changes[::3]]
    random.shuffle(shuffled)
    columns = as_columns(THINGS, shuffled)
    versions = list_versions(columns, columns.tx_id)
    by_bits = dict(zip(bits_of(THINGS, list(rows)).pairs(), rows.values(), strict=True)) if rows else {}
    found, bases = list[Row | None](), versions.base.pairs()
    for at, row in enumerate(versions.rows.to_pylist()):
        base = by_bits[bases[at]] if versions.has_base[at] else {}
        whole = {n: base.get(n) if n in versions.unsent and versions.unsent[n][at] else v for n, v in row.items()}
        found.append(whole if whole["id"] is not None else None)
    placed = [shuffled[place].place for place in versions.place.tolist()]
    assert placed == [change.place for change in changes]
    return found


@examples(500)
@given(histories(BEFORE), st.randoms(use_true_random=False))
def test_versions_are_those_that_somebody_sees_after_each_change(history: list[Sent], random: Random) -> None:
    changes = [change for sent in history for change in sent.changes]
    if changes:
        assert versions_of(BEFORE, changes, random) == versions_by_model(BEFORE, changes)
