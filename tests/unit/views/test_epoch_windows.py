"""A window that closes reads all epochs of a history: it has the rows of the one that was kept when it closed."""

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import cast

import pyarrow as pa
import pytest

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.history.epochs import GONE, Epoch, OpenEpoch
from cdc.sinks.lake.history.facts import Gap, HistoryEnd, HistoryFacts, HistoryMoment, TrackedShape
from cdc.sinks.lake.history.shape import SEQUENCE, history_table
from cdc.views.compiled import compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.epoch_windows import define_over_epochs
from cdc.views.statement.final_windows import LATE, find_closing_window, list_read_tables, select_late
from tests.unit.views.statement.test_final_windows import (
    CLICKS,
    FINAL_AFTER,
    MINUTES,
    SIZE,
    START,
    Version,
    begin_of,
    counts_at_the_end,
    random_versions,
    run,
)

LATER = Table(
    CLICKS.name,
    (
        Column("id", Kind.BIGINT),
        Column("At", Kind.TIMESTAMPTZ),
        Column("page", Kind.INTEGER, array=True),
        Column("pk", Kind.INTEGER),
    ),
    ("pk",),
)
"""Another key, other types, one of which the old values cannot be cast to, and a column that came."""
JOINED = timedelta(minutes=6)
"""When the second epoch begins; the first has everything until a minute before."""


def epoch_of(table: Table, number: int, *gaps: Gap) -> Epoch:
    own, at = history_table(table, number), moment(JOINED if number > 1 else timedelta())
    facts = HistoryFacts(table.name, number, HistoryEnd(), (TrackedShape.of(table, at),), gaps)
    return Epoch(number, own.name, OpenEpoch(cast("DeltaLog", None), own, facts))


def moment(after: timedelta) -> HistoryMoment:
    return HistoryMoment(1, round((START + after).timestamp() * 1000))


KNOWN = JOINED - timedelta(minutes=1)
GAP = Gap(moment(KNOWN), moment(JOINED))
EPOCHS = (epoch_of(CLICKS, 1), epoch_of(LATER, 2, GAP))


def versions_of(epochs: tuple[Epoch, ...], random: Random) -> dict[TableName, list[Version]]:
    """Versions of the first epoch until what it knows ends, and of the second, which begins with copies."""
    first = [each for each in random_versions(random) if each["_committed_at"] <= START + KNOWN]
    second = [
        {
            **each,
            "_committed_at": each["_committed_at"] + JOINED,
            "pk": each["id"],
            "id": 2**40,
            "page": None,
            SEQUENCE: 50 + number,
        }
        for number, each in enumerate(random_versions(random))
    ]
    # rows of windows that closed long ago are there, too
    copies = [{"pk": 100 + n, "id": 1, "At": START + timedelta(seconds=50 * n), "_change": "copy"} for n in range(8)]
    began = {"_committed_at": START + JOINED, "_lsn": 1}
    copied = [{**copy, **began, SEQUENCE: 40 + number} for number, copy in enumerate(copies)]
    return {epochs[0].name: first, epochs[1].name: [*copied, *second]}


def to_arrow(versions: dict[TableName, list[Version]], epochs: tuple[Epoch, ...]) -> dict[TableName, pa.Table]:
    tables = {epoch.name: epoch.opened.table for epoch in epochs if epoch.opened}
    return {name: pa.Table.from_pylist(rows, arrow_schema(tables[name])) for name, rows in versions.items()}


def is_of_first(version_at: Version) -> bool:
    return begin_of(version_at["At"]) + SIZE + FINAL_AFTER <= START + KNOWN


@pytest.mark.parametrize("seed", range(10))
def test_each_window_is_of_the_epoch_that_was_kept_when_it_closed(seed: int) -> None:
    [view] = define_over_epochs([MINUTES], lambda name: EPOCHS)
    tables = {epoch.name: epoch.opened.table for epoch in EPOCHS if epoch.opened}
    versions = versions_of(EPOCHS, Random(seed))
    found = dict(run(compile_view(view, tables), to_arrow(versions, EPOCHS)))
    first, second = versions.values()
    by_pk = [{**each, "id": each["pk"]} for each in second]
    expected = {
        **{at: n for at, n in counts_at_the_end(first).items() if is_of_first({"At": at})},
        **{at: n for at, n in counts_at_the_end(by_pk).items() if not is_of_first({"At": at})},
    }
    assert {begin.replace(tzinfo=START.tzinfo): count for begin, count in found.items()} == expected
    assert {True, False} == {is_of_first({"At": at}) for at in expected}


def test_what_came_too_late_is_of_all_epochs() -> None:
    closing = find_closing_window(MINUTES)
    assert closing
    late = ViewDefinition.of(f"{MINUTES.name}{LATE}", select_late(closing), [SEQUENCE])
    castable = replace(LATER, columns=tuple(column for column in LATER.columns if not column.array))
    epochs = (EPOCHS[0], epoch_of(castable, 2, GAP))
    views = define_over_epochs([MINUTES, late], lambda name: epochs)
    tables = {epoch.name: epoch.opened.table for epoch in epochs if epoch.opened}
    versions = versions_of(epochs, Random(1))
    compiled = compile_view(views[1], tables)
    at = [output.name for output in compiled.outputs].index(SEQUENCE)
    assert {row[at] for row in run(compiled, to_arrow(versions, epochs))} == {
        each[SEQUENCE]
        for own in versions.values()
        for each in own
        if each["_change"] in ("insert", "update")
        and each["_committed_at"] >= begin_of(each["At"]) + SIZE + FINAL_AFTER
    }


def test_one_epoch_changes_no_definition() -> None:
    assert define_over_epochs([MINUTES], lambda name: EPOCHS[:1]) == [MINUTES]
    other = replace(MINUTES, final_after="")
    assert define_over_epochs([other], lambda name: EPOCHS) == [other]


def test_an_epoch_that_cannot_be_read_is_waited_for() -> None:
    lost = Epoch(1, EPOCHS[0].name, None, GONE)
    [view] = define_over_epochs([MINUTES], lambda name: (lost, EPOCHS[1]))
    assert list_read_tables(view) == [lost.name, EPOCHS[1].name]
