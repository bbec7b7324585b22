"""A history goes through every change of its table's shape with what it held, or goes on in an epoch beside it."""

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from cdc.core.errors import HistoryLostError
from cdc.core.position import LogStart, Lsn
from cdc.core.table import Column, Kind, Table
from cdc.sinks.lake import layout
from cdc.sinks.lake.history.shape import history_name
from tests.contract.followers import OTHERS
from tests.support.histories import THINGS
from tests.support.lake.places import PLACES, PlacedLake, place_lake
from tests.support.lake.tracked import NAME, ROWS, TrackedLake, Values

ID, SMALL, BIG = THINGS.columns


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Any) -> PlacedLake:
    return place_lake(request, tmp_path)


def table(*columns: Column, key: tuple[str, ...] = ("id",)) -> Table:
    return Table(NAME, columns, key)


SAME_EPOCH: dict[str, tuple[Table, Values]] = {
    "dropped": (table(ID, BIG), {"id": 1, "big": "z"}),
    "renamed": (table(ID, SMALL, replace(BIG, name="label")), {"id": 1, "small": 9, "label": "z"}),
    "reordered": (table(BIG, SMALL, ID), {"big": "z", "small": 9, "id": 1}),
    "added with a default": (table(ID, SMALL, BIG, replace(BIG, name="kind")), {**ROWS[0], "kind": "new"}),
    "came again": (table(ID, SMALL, replace(BIG, number=9)), {"id": 1, "small": 9, "big": "z"}),
    "as it was": (THINGS, {"id": 1, "small": 9, "big": "z"}),
}
"""A shape whose rows stand beside those of the old one, and a row of it."""
NEW_EPOCH: dict[str, tuple[Table, Values]] = {
    "text": (table(ID, replace(SMALL, kind=Kind.TEXT), BIG), {"id": 1, "small": "EUR 1", "big": "a"}),
    "bigint": (table(ID, replace(SMALL, kind=Kind.BIGINT), BIG), {"id": 1, "small": 2**40, "big": "a"}),
    "decimal": (
        table(ID, Column("small", Kind.DECIMAL, 12, 4), BIG),
        {"id": 1, "small": Decimal("1.5000"), "big": "a"},
    ),
    "array": (table(ID, replace(SMALL, array=True), BIG), {"id": 1, "small": [1, 2], "big": "a"}),
    "enum": (table(ID, SMALL, Column("big", Kind.ENUM, type="mood")), {"id": 1, "small": 1, "big": "sad"}),
    "other case": (table(ID, SMALL, replace(BIG, name="Big")), {"id": 1, "small": 1, "Big": "x"}),
    "key of another type": (table(replace(ID, kind=Kind.TEXT), SMALL, BIG), {"id": "one", "small": 1, "big": "a"}),
    "key of other columns": (table(*THINGS.columns, key=("small",)), {"id": 1, "small": 1, "big": "a"}),
    "key of more columns": (table(*THINGS.columns, key=("id", "small")), {"id": 1, "small": 1, "big": "a"}),
    "key renamed": (table(replace(ID, name="pk"), SMALL, BIG, key=("pk",)), {"pk": 1, "small": 1, "big": "a"}),
}
"""A shape whose rows do not."""


@pytest.mark.parametrize("name", SAME_EPOCH)
def test_a_history_keeps_what_it_held(lake: PlacedLake, name: str) -> None:
    tracked, (shape, row) = TrackedLake(lake), SAME_EPOCH[name]
    tracked.put(1, {"id": 1, "small": 7, "big": "old"})
    tracked.copy_again(shape, [row], 3)
    tracked.restart()
    tracked.put(4, row)
    [epoch] = tracked.epochs()
    assert epoch.opened
    assert tracked.find_breaks() == [None]
    assert tracked.as_of(5) == (THINGS.column_names, [*ROWS])
    assert tracked.as_of(10) == (THINGS.column_names, [{"id": 1, "small": 7, "big": "old"}, ROWS[1]])
    assert tracked.as_of(25) == tracked.as_of(40) == (shape.column_names, [row])
    # nobody knows when in between they came
    with pytest.raises(HistoryLostError, match=r"public\.things lacks what was committed between 0/A and 0/19"):
        tracked.as_of(20)
    assert not tracked.said


@pytest.mark.parametrize("name", NEW_EPOCH)
def test_a_history_goes_on_in_an_epoch_beside_it(lake: PlacedLake, name: str) -> None:
    tracked, (shape, row) = TrackedLake(lake), NEW_EPOCH[name]
    tracked.put(1, {"id": 1, "small": 7, "big": "old"})
    before = [epoch.opened for epoch in tracked.epochs()]
    tracked.copy_again(shape, [row], 3)
    tracked.restart()
    tracked.put(4, row)
    first, second = tracked.epochs()
    assert first.opened
    assert before[0]
    # not a file of the past was touched
    assert first.opened.log.snapshot.files == before[0].log.snapshot.files
    assert str(second.name) == "public.things_history_2"
    assert second.opened
    # the last cut that the first epoch is whole at
    assert (first.opened.facts.succeeds, second.opened.facts.succeeds.lsn) == (first.opened.facts.begins, 10)
    assert tracked.find_breaks() == [None, None]
    assert tracked.as_of(10) == (THINGS.column_names, [{"id": 1, "small": 7, "big": "old"}, ROWS[1]])
    assert tracked.as_of(25) == tracked.as_of(40) == (shape.column_names, [row])
    for lsn in (15, 20, 24):
        with pytest.raises(HistoryLostError, match="between 0/A and 0/19"):
            tracked.as_of(lsn)
    [said] = tracked.said
    assert said.startswith("public.things_history has ended: ")
    assert said.endswith("; the history of public.things goes on in public.things_history_2")
    cut = tracked.follower.cuts.last()
    assert cut
    assert {"public.things_history", "public.things_history_2"} <= cut.versions.keys()


def test_many_epochs_and_shapes_are_one_history(lake: PlacedLake) -> None:
    tracked = TrackedLake(lake)
    shapes = [*NEW_EPOCH.values(), (THINGS, ROWS[0]), *SAME_EPOCH.values()]
    for at, (shape, row) in enumerate(shapes):
        tracked.copy_again(shape, [row], 2 * at + 3)
        if at % 3 == 0:
            tracked.restart()
    for at, (shape, row) in enumerate(shapes):
        assert tracked.as_of(10 * (2 * at + 3)) == (shape.column_names, [row])
    assert not any(tracked.find_breaks())
    sequences = [
        value
        for epoch in tracked.epochs()
        if epoch.opened
        for value in tracked.rows_of(epoch.opened)["_sequence"].to_pylist()
    ]
    assert sequences == [*range(1, len(sequences) + 1)]


def test_an_added_column_is_there_from_its_commit_on(lake: PlacedLake) -> None:
    tracked, wider = TrackedLake(lake), table(*THINGS.columns, replace(BIG, name="kind", added=True))
    tracked.put(1, ROWS[0])
    tracked.widen(wider, 2)
    tracked.put(3, {**ROWS[0], "kind": "new"})
    assert tracked.as_of(19)[0] == THINGS.column_names
    assert tracked.as_of(20) == (wider.column_names, [{**row, "kind": None} for row in ROWS])
    assert tracked.as_of(30)[1][0]["kind"] == "new"
    assert tracked.find_breaks() == [None]


def test_no_moment_before_the_beginning_is_answered(lake: PlacedLake) -> None:
    with pytest.raises(HistoryLostError, match=r"the history of public\.things begins at 0/5"):
        TrackedLake(lake).as_of(4)


def test_an_ended_epoch_that_was_put_back_is_told(lake: PlacedLake) -> None:
    tracked = TrackedLake(lake)
    tracked.put(1, ROWS[0])
    shape, row = NEW_EPOCH["text"]
    tracked.copy_again(shape, [row], 3)
    newest = max((lake.disk(history_name(NAME)) / "_delta_log").glob("*.json"))
    assert '"add"' in newest.read_text()
    newest.unlink()
    tracked.restart()
    tracked.put(4, row)
    assert tracked.said[-1].startswith("public.things_history, which has ended, cannot be read: it was put back to ver")
    assert tracked.as_of(40)[1] == [row]
    assert not tracked.follower.histories.stops(tracked.follower.tables.all())


def test_a_history_not_kept_for_a_while_goes_on_with_a_gap(lake: PlacedLake) -> None:
    tracked = TrackedLake(lake)
    tracked.put(1, ROWS[0])
    tracked.restart(histories=())
    tracked.put(2, {**ROWS[0], "small": 8})
    tracked.restart()
    tracked.put(3, {**ROWS[0], "small": 9})
    assert tracked.as_of(10)[1] == [*ROWS]
    assert tracked.as_of(30)[1][0]["small"] == 9
    with pytest.raises(HistoryLostError, match="between 0/A and 0/14"):
        tracked.as_of(15)
    assert tracked.find_breaks() == [None]


@pytest.mark.parametrize("name", ["as it was", "text"])
def test_a_recapture_goes_on_with_the_past(lake: PlacedLake, name: str) -> None:
    tracked, (shape, row) = TrackedLake(lake), (SAME_EPOCH | NEW_EPOCH)[name]
    tracked.put(1, ROWS[0])
    for each in (shape, OTHERS):
        tracked.copy(each, [row] if each is shape else ROWS, 35, anew=True)
    tracked.table = shape
    tracked.follower.start_over(lambda at: LogStart(at, number=2, lsn=Lsn(35)), Lsn(35), {}, 0)
    tracked.restart()
    tracked.put(5, row)
    assert tracked.as_of(10) == (THINGS.column_names, [*ROWS])
    assert tracked.as_of(35) == tracked.as_of(50) == (shape.column_names, [row])
    with pytest.raises(HistoryLostError, match="between 0/A and 0/23"):
        tracked.as_of(30)
    assert not any(tracked.find_breaks())


def test_the_facts_are_read_without_the_configuration(lake: PlacedLake) -> None:
    tracked = TrackedLake(lake)
    log = layout.open_owned_log(lake, history_name(NAME))
    assert log
    assert layout.is_history(log.snapshot)
    facts = json.loads(log.snapshot.configuration[layout.HISTORY_PROPERTY])
    assert (facts["of"], facts["epoch"]) == (["public", "things"], 1)
    assert tracked.follower.histories.snapshots([NAME]).keys() == {history_name(NAME)}
