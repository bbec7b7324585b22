"""A view that is far behind comes back by its keys, slice by slice; what is too large for one process goes whole."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NoReturn

import pyarrow as pa
import pytest

from cdc.core.table import TableName
from cdc.run.follow.process_streams import have_settled
from cdc.sinks.lake import layout
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.lookup import TableLookup
from cdc.views.definition import ViewDefinition
from cdc.views.refresh.derived import ComputedByDuckDB, NotDerivedError
from cdc.views.spark.whole import WholeComputation
from cdc.views.upkeep.table_steps import Bounds
from tests.support.views.kept import Kept, KeptWithoutSpark
from tests.support.views.sales import COUNTS, CUSTOMERS, NAMES, ORDERS, TABLES, an_order, order, put_customers

LONG_SECONDS = 1e6


def forbid_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        pytest.fail("a view is computed as a whole")

    monkeypatch.setattr(WholeComputation, "fill", fail)
    monkeypatch.setattr(WholeComputation, "differences", fail)


def change_orders(kept: Kept, random: Random) -> None:
    for _ in range(3):
        put_customers(kept, random.randrange(6), name=random.choice("abc"))
        kept.source.put("orders", order(random.randrange(12), random))
    kept.source.delete("orders", (random.randrange(12),))


def measure_changes(kept: Kept, name: str, since: Cut, until: Cut) -> int:
    table, lake = TableName.parse(name), kept.source.lake
    log = layout.open_owned_log(lake, table, since.versions[name])
    assert log
    lookup = TableLookup(ORDERS, lake.table_storage(table), log, kept.place / "measured")
    return lookup.measure_changes(until.versions[name])


def test_a_view_far_behind_comes_back_by_keys_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a change arrives meanwhile, and the process ends between two slices."""
    kept, random = KeptWithoutSpark(tmp_path, TABLES, [COUNTS, NAMES]), Random(5)
    change_orders(kept, random)
    first = kept.keeper.bring(kept.source.cut())
    kept.keeper.save()
    forbid_whole(monkeypatch)
    for _ in range(6):
        change_orders(kept, random)
        newest = kept.source.cut()
    # of six cuts, one and a half at once; a refresh of two keys at a time
    bounds = Bounds(slice_bytes=measure_changes(kept, "public.orders", first, newest) // 4, keys=2, share=1e9)
    kept.restart(bounds=bounds)
    reached, slices = first, 0
    while not reached.position.covers(newest.position):
        before, reached = reached, kept.keeper.advance(newest)
        assert not before.position.covers(reached.position)
        slices += 1
        if slices == 2:
            change_orders(kept, random)
            newest = kept.source.cut()
            kept.restart(bounds=bounds)
    assert 3 < slices <= 7
    assert not [*kept.differences(reached)]
    assert not reached.whole
    assert not reached.as_of


def test_one_cut_of_too_many_changes_makes_a_view_whole_once(tmp_path: Path) -> None:
    kept = KeptWithoutSpark(tmp_path, TABLES, [COUNTS])
    put_customers(kept, *range(6))
    kept.restart(LONG_SECONDS)
    kept.keeper.bring(kept.source.cut())
    kept.restart(LONG_SECONDS, Bounds(wait_seconds=LONG_SECONDS, changed_bytes=20_000))
    put_customers(kept, *range(6, 400))
    cut = kept.keeper.bring(kept.source.cut())
    assert cut.whole == {str(COUNTS.name): "too many changes of public.customers at once"}
    # at once, since it was not computed for long
    assert not cut.as_of
    assert not [*kept.differences(cut)]
    put_customers(kept, 1, name="b")
    cut = kept.keeper.bring(kept.source.cut())
    assert not cut.whole
    assert not [*kept.differences(cut)]


def test_a_hot_key_is_computed_by_spark_now_and_then(tmp_path: Path) -> None:
    kept = KeptWithoutSpark(tmp_path, TABLES, [COUNTS])
    put_customers(kept, 1, 2)
    for number in range(300):
        kept.source.put("orders", an_order(number, 1))
    kept.keeper.bring(kept.source.cut())
    kept.restart(LONG_SECONDS, Bounds(wait_seconds=LONG_SECONDS, found_bytes=10_000))
    why = "rows of public.orders with the same customer_id are too many for one process"
    kept.source.put("orders", an_order(1, 1, 7))
    cut = kept.keeper.bring(kept.source.cut())
    assert cut.whole == {str(COUNTS.name): why}
    assert not [*kept.differences(cut)]
    shown = kept.rows(COUNTS, cut)
    kept.source.put("orders", an_order(1, 1, 8))
    later = kept.keeper.bring(kept.source.cut())
    # not once more so soon
    assert kept.store.shown_cut(later, COUNTS.name).position == cut.position
    assert kept.rows(COUNTS, later) == shown
    # once it is gone
    for number in range(2, 300):
        kept.source.delete("orders", (number,))
    kept.restart(LONG_SECONDS, Bounds(wait_seconds=LONG_SECONDS, found_bytes=10_000))
    cut = kept.keeper.bring(kept.source.cut())
    assert not [*kept.differences(cut)]
    kept.source.put("orders", an_order(1, 2, 9))
    cut = kept.keeper.bring(kept.source.cut())
    assert (cut.whole, cut.as_of) == ({}, {})
    assert not [*kept.differences(cut)]


def test_a_view_that_shows_an_older_cut_needs_a_later_one(tmp_path: Path) -> None:
    """Though nothing changes any more: it is computed at the next cut."""
    kept = KeptWithoutSpark(tmp_path, TABLES, [COUNTS])
    put_customers(kept, 1, 2)
    for number in range(300):
        kept.source.put("orders", an_order(number, 1))
    kept.keeper.bring(kept.source.cut())
    kept.restart(LONG_SECONDS, Bounds(found_bytes=10_000))
    assert have_settled(kept.keeper)
    for amount in (7, 8):
        kept.source.put("orders", an_order(1, 1, amount))
        cut = kept.keeper.bring(kept.source.cut())
    assert cut.as_of
    assert not have_settled(kept.keeper)
    # of a keeper in another process nothing is known
    assert not have_settled(None)


def test_a_value_that_nobody_derives_makes_a_view_whole_while_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_name = ViewDefinition.of(
        "sales.letters", "SELECT concat(name, '!') AS k, count(*) AS n FROM customers GROUP BY concat(name, '!')", ["k"]
    )
    compute: Callable[[ComputedByDuckDB, pa.Table], pa.Array] = ComputedByDuckDB.compute

    def compute_some(self: ComputedByDuckDB, rows: pa.Table) -> pa.Array:
        if "odd" in rows["name"].to_pylist():
            raise NotDerivedError("name of public.customers cannot be computed")
        return compute(self, rows)

    monkeypatch.setattr(ComputedByDuckDB, "compute", compute_some)
    kept = KeptWithoutSpark(tmp_path, [CUSTOMERS], [by_name])
    put_customers(kept, 1, 2)
    put_customers(kept, 3, name="odd")
    kept.keeper.bring(kept.source.cut())
    put_customers(kept, 1, name="b")
    cut = kept.keeper.bring(kept.source.cut())
    assert cut.whole == {"sales.letters": "name of public.customers cannot be computed"}
    put_customers(kept, 3, name="even")
    kept.keeper.bring(kept.source.cut())
    # the file still has the row, deleted
    forbid_whole(monkeypatch)
    put_customers(kept, 2, name="c")
    cut = kept.keeper.bring(kept.source.cut())
    assert not cut.whole
    assert not [*kept.differences(cut)]
