"""One view's trouble stops that view; what is filled stays so; nothing stays on disk that nobody reads."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JError

from cdc.core.errors import UnreachableError
from cdc.core.table import TableName
from cdc.core.waiting import Deadline
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table import copied_rows
from cdc.sinks.lake.table.compact import compact_files
from cdc.views.compiled import CompiledView, compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.order import sort_readable, split_readable
from cdc.views.refresh.lake_tables import TablesAtCut
from cdc.views.refresh.refresh import refresh
from cdc.views.spark.whole import ViewFiles, WholeComputation
from cdc.views.statement.final_windows import list_read_tables
from cdc.views.upkeep.keeper import KeeperHooks, ViewKeeper
from tests.support.views.kept import Kept, KeptWithoutSpark
from tests.support.views.sales import COUNTS, NAMES, ORDERS, TABLES, an_order, put_customers
from tests.support.waiting import until

UNCOMPILED = ViewDefinition.of("sales.a_uncompiled", "SELECT id, name AS uncompiled FROM customers", ["id"])
FAILING = ViewDefinition.of("sales.failing", "SELECT id, name AS failing FROM customers", ["id"])
OVER_FAILING = ViewDefinition.of("sales.over", "SELECT id FROM sales.failing", ["id"])


def stop_of(kept: Kept, view: ViewDefinition) -> str:
    stop = kept.store.find_stop(view)
    assert stop, view.name
    return stop.reason


def test_any_error_stops_one_view_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_some(definition: ViewDefinition, *args: Any) -> Any:
        if definition is UNCOMPILED:
            raise StopIteration
        return compile_view(definition, *args)

    fill = WholeComputation.fill

    def fill_some(self: WholeComputation, view: CompiledView) -> ViewFiles:
        if view.definition is FAILING:
            raise Py4JError("An error occurred while calling o13.collectToPython.\n: a.B: no such thing\n\tat c")
        return fill(self, view)

    monkeypatch.setattr("cdc.views.upkeep.keeper.compile_view", compile_some)
    monkeypatch.setattr(WholeComputation, "fill", fill_some)
    views = [UNCOMPILED, FAILING, OVER_FAILING, NAMES, COUNTS]
    kept = KeptWithoutSpark(tmp_path, TABLES, views)
    put_customers(kept, 1, 2)
    kept.source.put("orders", an_order(1, 1))
    cut = kept.keeper.bring(kept.source.cut())
    assert {str(NAMES.name), str(COUNTS.name)} == {name for name in cut.versions if name.startswith("sales.")}
    assert "does not know" in stop_of(kept, UNCOMPILED)
    assert "StopIteration" in stop_of(kept, UNCOMPILED)
    assert stop_of(kept, FAILING) == "a.B: no such thing"
    assert kept.store.find_stop(OVER_FAILING) is None
    assert "view sales.over waits for sales.failing, which is in no cut now" in kept.said
    check_others_go_on(kept, monkeypatch)


def check_others_go_on(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two views meets an error later: it stops, and is filled again once its pause is over."""

    def refresh_some(shape: Any, *args: Any) -> Any:
        if shape.table.name == NAMES.name:
            raise KeyError("n")
        return refresh(shape, *args)

    said = len(kept.said)
    with monkeypatch.context() as patched:
        patched.setattr("cdc.views.upkeep.one_view.refresh", refresh_some)
        put_customers(kept, 3)
        cut = kept.keeper.bring(kept.source.cut())
    assert [line for line in kept.said[said:] if "rows computed" in line] == []
    assert "KeyError: 'n'" in stop_of(kept, NAMES)
    assert str(NAMES.name) not in cut.versions
    assert kept.rows(COUNTS, cut) == kept.recompute(COUNTS, cut)
    next(each for each in kept.kept if each.definition is NAMES).retry_at = Deadline(0)
    cut = kept.keeper.bring(cut)
    assert kept.rows(NAMES, cut) == kept.recompute(NAMES, cut)
    assert kept.said[-1] == "view sales.names goes on"
    # followers that were at this cut before may have the rows of before
    assert cut.joined == {str(NAMES.name)}


def test_a_table_that_cannot_be_read_stops_its_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that does not answer stops none."""
    kept = KeptWithoutSpark(tmp_path, TABLES, [NAMES, COUNTS])
    put_customers(kept, 1)
    kept.keeper.bring(kept.source.cut())
    advance, errors = TablesAtCut.advance, list[Exception]()

    def advance_some(self: TablesAtCut, name: TableName, *args: Any) -> Any:
        if errors and name == ORDERS.name:
            raise errors[0]
        return advance(self, name, *args)

    monkeypatch.setattr(TablesAtCut, "advance", advance_some)
    put_customers(kept, 2)
    errors[:] = [UnreachableError("the store does not answer")]
    with pytest.raises(UnreachableError):
        kept.keeper.bring(kept.source.cut())
    assert kept.store.find_stop(COUNTS) is None
    errors[:] = [ValueError("no such thing")]
    cut = kept.keeper.bring(kept.source.cut())
    assert stop_of(kept, COUNTS).startswith("public.orders: an error that cdc does not know")
    assert kept.rows(NAMES, cut) == kept.recompute(NAMES, cut)
    errors.clear()
    kept.restart()
    put_customers(kept, 3)
    assert not [*kept.differences(kept.keeper.bring(kept.source.cut()))]


def test_a_stopped_view_is_tried_again_where_its_table_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptWithoutSpark(tmp_path, TABLES, [NAMES, COUNTS])
    put_customers(kept, 1)
    with monkeypatch.context() as patched:
        patched.setattr("cdc.views.upkeep.keeper.compile_view", Mock(side_effect=ValueError("no such thing")))
        kept.keeper.bring(kept.source.cut())
        put_customers(kept, 2)
        kept.keeper.bring(kept.source.cut())
    assert [line.split(" is kept")[0] for line in kept.said] == ["view sales.names", "view sales.counts"]
    put_customers(kept, 3)
    cut = kept.keeper.bring(kept.source.cut())
    # nothing but rows has changed: it waits
    assert "no such thing" in stop_of(kept, NAMES)
    kept.source.copy(ORDERS, anew=True)
    cut = kept.keeper.bring(kept.source.cut())
    assert "no such thing" in stop_of(kept, NAMES)
    assert kept.rows(COUNTS, cut) == kept.recompute(COUNTS, cut)


def test_a_view_that_is_defined_anew_at_a_cut_is_computed_anew(tmp_path: Path) -> None:
    """As where a history goes on in another table, which its views read from that cut on."""
    kept, asked = KeptWithoutSpark(tmp_path, TABLES, [NAMES, COUNTS]), list[int]()
    other = ViewDefinition.of(str(NAMES.name), "SELECT id, upper(name) AS name FROM customers", ["id"])

    def define(cut: Cut) -> list[ViewDefinition]:
        asked.append(cut.position.end_offset)
        return [NAMES if "public.more" not in cut.versions else other, COUNTS]

    kept.keeper = ViewKeeper(
        kept.spark, kept.store, kept.kept, KeeperHooks(kept.said.append, ChangeCache(0), define=define)
    )
    put_customers(kept, 1)
    for _ in range(2):
        first = kept.keeper.bring(kept.source.cut())
        put_customers(kept, 2)
    last = kept.source.cut()
    there = replace(last, versions={**last.versions, "public.more": 1}, ids={**last.ids, "public.more": "x"})
    cut = kept.keeper.bring(there)
    assert [row["name"] for row in kept.rows(other, cut)] == ["A", "A"]
    assert kept.rows(COUNTS, cut) == kept.recompute(COUNTS, cut)
    # once for each set of tables
    assert len(asked) == 2
    assert first.versions[str(NAMES.name)] != cut.versions[str(NAMES.name)]


def test_a_statement_that_nobody_can_read_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(view: ViewDefinition) -> list[TableName]:
        if view is FAILING:
            raise RecursionError("maximum recursion depth exceeded")
        return list_read_tables(view)

    monkeypatch.setattr("cdc.views.order.list_read_tables", read)
    readable, unreadable = split_readable([FAILING, NAMES])
    assert readable == [NAMES]
    assert list(unreadable) == [FAILING]
    assert "RecursionError: maximum recursion depth exceeded" in unreadable[FAILING]


def test_views_that_read_each_other_are_refused_and_no_others() -> None:
    read = {"a": "b", "b": "c", "c": "a", "d": "d", "over": "a", "e": "customers"}
    views = {name: ViewDefinition.of(f"public.{name}", f"SELECT id FROM {of}", ["id"]) for name, of in read.items()}
    ordered, refused = sort_readable([*views.values(), NAMES])
    assert {view.name.table for view in ordered} == {"over", "e", "names"}
    assert {view.name.table for view in refused} == {"a", "b", "c", "d"}
    assert refused[views["d"]] == "public.d → public.d read each other"
    assert len({refused[views[name]] for name in "abc"}) == 1


class EndedError(BaseException):
    """What ends a keeper."""


def is_shown(kept: Kept, view: ViewDefinition) -> bool:
    cut = kept.store.cuts.last()
    return cut is not None and str(view.name) in cut.versions


def test_what_is_filled_stays_filled_and_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the process ends while it fills the next one, at the same cut."""
    kept = KeptWithoutSpark(tmp_path, TABLES, [NAMES, COUNTS])
    put_customers(kept, 1)
    fill, cut = WholeComputation.fill, kept.source.cut()

    def fill_first(self: WholeComputation, view: CompiledView) -> ViewFiles:
        if view.definition is COUNTS:
            until(lambda: is_shown(kept, NAMES), "the other one is shown")
            raise EndedError
        return fill(self, view)

    with monkeypatch.context() as patched:
        patched.setattr(WholeComputation, "fill", fill_first)
        with pytest.raises(EndedError):
            kept.keeper.bring(cut)
    # to any reader
    shown = kept.store.cuts.last()
    assert shown
    assert shown.position == cut.position
    assert str(NAMES.name) in shown.versions
    kept.restart()
    reached = kept.keeper.bring(cut)
    assert {str(NAMES.name), str(COUNTS.name)} <= reached.versions.keys()
    assert [line.partition(":")[0] for line in kept.said] == ["view sales.names", "view sales.counts"]
    assert kept.store.cuts.find(cut.position.end_offset) == reached
    assert not reached.joined
    put_customers(kept, 2)
    assert not [*kept.differences(kept.keeper.bring(kept.source.cut()))]


def test_nothing_stays_on_disk_of_tables_that_no_view_reads(tmp_path: Path) -> None:
    kept = KeptWithoutSpark(tmp_path, TABLES, [NAMES, COUNTS])
    for number in range(2):
        put_customers(kept, number)
        kept.keeper.bring(kept.source.cut())
    kept.keeper.save()
    names = {"customers", "orders"}
    assert {each.name for each in tmp_path.rglob("by column/public/*")} == names
    kept.views = [NAMES]
    kept.restart()
    put_customers(kept, 3)
    kept.keeper.bring(kept.source.cut())
    assert {each.name for each in tmp_path.rglob("by column/public/*")} == {"customers"}
    assert {each.name for each in tmp_path.rglob("by part of the key/*/*")} <= {"names"}


def test_hashes_of_a_views_rows_go_with_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_rows, "MIN_COPIED_ROWS", 1)
    kept, copies = KeptWithoutSpark(tmp_path, TABLES, [NAMES]), set[Path]()
    put_customers(kept, *range(9))
    kept.keeper.bring(kept.source.cut())
    table = kept.store.find(NAMES)
    assert table
    for number in range(9):
        put_customers(kept, number, name="b")
        kept.keeper.bring(kept.source.cut())
        assert table.writer.rows.row_files
        table.writer.rows.row_files.settle()
        found = {*tmp_path.rglob("by part of the key/**/*.rows")}
        # of two cuts: a copy is asked for by whoever lacks it, and gone once the index knows
        assert len(found) <= 2
        copies |= found
        compact_files(table.writer, list(table.writer.snapshot.files))
    assert len(copies) > 5
