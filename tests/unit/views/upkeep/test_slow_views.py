"""A view that is computed for long holds up itself and the views over it, and is exact wherever a cut has it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import TableName
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.bounds import TooManyRowsError
from cdc.views.compiled import compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.refresh.evaluate import Evaluator
from cdc.views.refresh.refresh import ViewShape, refresh
from cdc.views.refresh.write_rows import ViewChanges
from cdc.views.statement.dialect.statements import DuckStatement
from cdc.views.statement.final_windows import list_read_tables
from cdc.views.upkeep.table_steps import Bounds
from tests.support.further import further
from tests.support.model import Row
from tests.support.views.gates import Gates
from tests.support.views.kept import Kept, KeptWithoutSpark
from tests.support.views.sales import COUNTS, NAMES, ORDERS, TABLES, an_order, order, put_customers
from tests.support.waiting import until

BIG = ViewDefinition.of("sales.big", "SELECT id, spent FROM sales.counts WHERE orders > 1", ["id"])
TOP = ViewDefinition.of(
    "sales.top",
    "SELECT rank, id FROM (SELECT id, row_number() OVER (ORDER BY total DESC, id) AS rank FROM orders) WHERE rank <= 3",
    ["rank"],
)
OF_TOP = ViewDefinition.of(
    "sales.of_top", "SELECT t.rank, o.customer_id FROM sales.top t JOIN orders o ON o.id = t.id", ["rank"]
)
VIEWS = [NAMES, COUNTS, BIG, TOP, OF_TOP]
SOON = 1e-9
"""Seconds between two whole computations: one at every cut, which nobody waits for."""
IMPATIENT = Bounds(wait_seconds=0.0)
LONG_SECONDS = 1e6


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gates]:
    made = Gates.put_before(monkeypatch)
    yield made
    made.open(*(view.name for view in VIEWS))


def change(kept: Kept, random: Random) -> None:
    for _ in range(random.randint(1, 4)):
        match random.randrange(8):
            case 0:
                kept.source.delete("customers", (random.randrange(6),))
            case 1:
                kept.source.delete("orders", (random.randrange(12),))
            case 2 | 3:
                put_customers(kept, random.randrange(6), name=random.choice("abc"))
            case _:
                kept.source.put("orders", order(random.randrange(12), random))


def fill(kept: Kept, is_enough: Callable[[Cut], bool]) -> Cut:
    """Show what is computed, until the newest cut is enough."""

    def last() -> Cut:
        kept.keeper.fill_next()
        cut = kept.store.cuts.last()
        assert cut
        return cut

    until(lambda: is_enough(last()), "the views are filled")
    return last()


def has(*views: ViewDefinition) -> Callable[[Cut], bool]:
    return lambda cut: {str(view.name) for view in views} <= cut.versions.keys()


def test_a_slow_fill_holds_up_the_views_over_it_alone(tmp_path: Path, gates: Gates) -> None:
    """And comes to the cut of the others by the changes since it began: it is computed once."""
    kept, random = KeptWithoutSpark(tmp_path, TABLES, [NAMES, COUNTS, BIG]), Random(3)
    gates.close(COUNTS.name)
    for _ in range(9):
        change(kept, random)
    kept.keeper.advance(kept.source.cut())
    fill(kept, has(NAMES))
    for _ in range(9):
        change(kept, random)
        cut = kept.keeper.advance(kept.source.cut())
        assert not kept.keeper.fill_next()
        assert {name for name in cut.versions if name.startswith("sales.")} == {str(NAMES.name)}
        assert kept.rows(NAMES, cut) == kept.recompute(NAMES, cut)
    assert kept.keeper.is_filling
    gates.open(COUNTS.name)
    cut = fill(kept, has(COUNTS, BIG))
    assert not kept.keeper.is_filling
    assert not [*kept.differences(cut)]
    assert not cut.as_of
    assert gates.begun[COUNTS.name] == 1
    change(kept, random)
    assert not [*kept.differences(kept.keeper.advance(kept.source.cut()))]


def test_a_slow_computation_leaves_its_view_at_the_cut_before(tmp_path: Path, gates: Gates) -> None:
    kept = KeptWithoutSpark(tmp_path, TABLES, [NAMES, TOP])
    kept.restart(SOON, IMPATIENT)
    kept.source.put("orders", an_order(1, 1))
    first = kept.keeper.bring(kept.source.cut())
    shown = kept.rows(TOP, first)
    gates.close(TOP.name)
    cuts = [advance_with_an_order(kept, number) for number in range(2, 5)]
    assert [cut.as_of for cut in cuts] == [{str(TOP.name): first.position.end_offset}] * 3
    assert kept.rows(TOP, cuts[-1]) == shown
    # one, at the first of these cuts
    assert gates.begun[TOP.name] == 2
    gates.open(TOP.name)
    until(lambda: has_computed(kept, TOP), "the computation ends")
    # no cut changes that somebody may have read
    assert not kept.keeper.fill_next()
    last = kept.store.cuts.last()
    assert last
    assert last.versions == cuts[-1].versions
    gates.close(TOP.name)
    cut = advance_with_an_order(kept, 5)
    assert cut.as_of == {str(TOP.name): cuts[0].position.end_offset}
    assert len(kept.rows(TOP, cut)) == 2


def advance_with_an_order(kept: Kept, number: int) -> Cut:
    """The other view is right at the cut."""
    put_customers(kept, number)
    kept.source.put("orders", an_order(number, 1, number))
    cut = kept.keeper.advance(kept.source.cut())
    assert kept.rows(NAMES, cut) == kept.recompute(NAMES, cut)
    return cut


def has_computed(kept: Kept, view: ViewDefinition) -> bool:
    computation = next(each.computation for each in kept.kept if each.definition is view)
    return computation is not None and computation.has_ended


def test_a_computation_over_tables_that_are_others_by_now_is_dropped(tmp_path: Path, gates: Gates) -> None:
    kept = KeptWithoutSpark(tmp_path, TABLES, [NAMES, COUNTS])
    gates.close(COUNTS.name)
    put_customers(kept, 1, 2)
    kept.keeper.advance(kept.source.cut())
    fill(kept, has(NAMES))
    kept.source.copy(ORDERS, anew=True)
    kept.source.put("orders", an_order(1, 1))
    kept.keeper.advance(kept.source.cut())
    gates.open(COUNTS.name)
    cut = fill(kept, has(NAMES, COUNTS))
    assert gates.begun[COUNTS.name] == 2
    assert not [*kept.differences(cut)]


def test_too_many_changes_beside_a_fill_make_the_view_whole_once_more(tmp_path: Path, gates: Gates) -> None:
    kept = KeptWithoutSpark(tmp_path, TABLES, [COUNTS])
    kept.restart(SOON, Bounds(changed_bytes=20_000))
    gates.close(COUNTS.name)
    put_customers(kept, *range(6))
    first = kept.keeper.advance(kept.source.cut())
    kept.keeper.fill_next()
    for number in range(6):
        put_customers(kept, *range(100 * number, 100 * number + 100), name="b" * 100)
        kept.keeper.advance(kept.source.cut())
    gates.open(COUNTS.name)
    cut = fill(kept, has(COUNTS))
    assert cut.as_of == {str(COUNTS.name): first.position.end_offset}
    assert cut.whole == {str(COUNTS.name): "too many changes of public.customers at once"}
    assert len(kept.rows(COUNTS, cut)) == 6
    put_customers(kept, 1, name="c")
    until(lambda: not kept.keeper.advance(kept.source.cut()).as_of, "it is computed")
    last = kept.store.cuts.last()
    assert last
    assert not [*kept.differences(last)]


def test_rows_of_a_refresh_that_went_too_far_are_in_no_cut(
    tmp_path: Path, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some keys were written when one had too many rows: the view shows the cut before, and nobody waits."""
    kept = KeptWithoutSpark(tmp_path, TABLES, [NAMES, COUNTS])
    kept.restart(LONG_SECONDS, A_KEY_AT_ONCE)
    put_customers(kept, 1, 2)
    first = kept.keeper.bring(kept.source.cut())
    before = (first.versions[str(COUNTS.name)], first.position.end_offset)
    gates.close(COUNTS.name)
    with monkeypatch.context() as patched:
        patched.setattr("cdc.views.upkeep.one_view.refresh", refresh_one)
        put_customers(kept, 1, 2, name="b")
        assert shown_at(kept.keeper.advance(kept.source.cut()), COUNTS) == before
    table = kept.store.find(COUNTS)
    assert table
    assert table.writer.snapshot.version > before[0]
    # whatever process goes on
    kept.restart(LONG_SECONDS, A_KEY_AT_ONCE)
    put_customers(kept, 3)
    assert shown_at(kept.keeper.advance(kept.source.cut()), COUNTS) == before
    gates.open(COUNTS.name)
    until(lambda: has_computed(kept, COUNTS), "the computation ends")
    put_customers(kept, 4)
    cut = kept.keeper.advance(kept.source.cut())
    assert not cut.as_of
    assert not [*kept.differences(cut)]


A_KEY_AT_ONCE = Bounds(wait_seconds=0.0, keys=1, share=1e9)


def refresh_one(shape: ViewShape, *args: Any) -> Iterator[ViewChanges]:
    """Of one of the views, the first key only."""
    found = refresh(shape, *args)
    if shape.table.name != COUNTS.name:
        yield from found
        return
    yield next(found)
    raise TooManyRowsError("too many")


def shown_at(cut: Cut, view: ViewDefinition) -> tuple[int, int]:
    """The version, and the cut that it shows."""
    return cut.versions[str(view.name)], cut.as_of[str(view.name)]


def test_a_process_that_ends_leaves_a_fill_to_the_next(tmp_path: Path, gates: Gates) -> None:
    kept = KeptWithoutSpark(tmp_path, TABLES, [NAMES, COUNTS])
    gates.close(COUNTS.name)
    put_customers(kept, 1)
    kept.keeper.advance(kept.source.cut())
    fill(kept, has(NAMES))
    gates.open(COUNTS.name)
    kept.keeper.close()
    kept.keeper.save()
    kept.restart()
    put_customers(kept, 2)
    cut = kept.keeper.bring(kept.source.cut())
    assert not [*kept.differences(cut)]
    assert [line.partition(":")[0] for line in kept.said] == ["view sales.names", "view sales.counts"]


class Witness:
    """Knows what every view is at every cut, by what its tables and views are there, and compares each that it sees."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._tables: dict[tuple[TableName, int], pa.Table] = {}

    def note(self, cut: Cut) -> None:
        """Note the tables of the newest cut."""
        for name, (table, rows) in self._kept.source.rows_at(cut).items():
            self._tables[name, cut.position.end_offset] = pa.Table.from_pylist(rows, arrow_schema(table))

    def check(self, cut: Cut) -> None:
        for view in VIEWS:
            table = self._kept.store.find(view)
            if str(view.name) not in cut.versions or table is None:
                continue
            rows, at = self._kept.rows(view, cut), cut.as_of.get(str(view.name), cut.position.end_offset)
            # what the views over it read there
            self._tables.setdefault(
                (view.name, cut.position.end_offset), pa.Table.from_pylist(rows, arrow_schema(table.table))
            )
            assert rows == self._compute(view, at), (view.name, at, cut.position.end_offset)

    def _compute(self, view: ViewDefinition, at: int) -> list[Row]:
        table = self._kept.store.find(view)
        assert table
        tables = {each.name: each for each in TABLES}
        for name in list_read_tables(view):
            if found := self._kept.store.tables.find(name):
                tables[name] = found.table
        compiled = compile_view(view, {name: tables[name] for name in list_read_tables(view)})
        assert isinstance(compiled.duckdb, DuckStatement)
        read = {compiled.names[name]: self._tables[name, at] for name in compiled.tables}
        result = compiled.shape(table.table).conform(Evaluator().evaluate(compiled.duckdb.sql, read))
        return sorted(result.to_pylist(), key=lambda row: [str(row[name]) for name in table.table.key])


class Story:
    """What happens to a lake with views, at random."""

    def __init__(self, place: Path, gates: Gates, seed: int) -> None:
        self.kept, self.random, self._gates = KeptWithoutSpark(place, TABLES, VIEWS), Random(seed), gates
        self.kept.restart(SOON, IMPATIENT)
        self._witness, self._has_cut = Witness(self.kept), False

    def go_on(self) -> None:
        match self.random.randrange(12):
            case 0 | 1 | 2:
                view = self.random.choice(VIEWS).name
                (self._gates.close if self._gates.is_open(view) else self._gates.open)(view)
            case 3:
                self.kept.source.copy(ORDERS, anew=True)
            case 4 if self._has_cut:
                self.begin_anew(SOON)
            case 5 | 6 | 7 if self._has_cut:
                self.kept.keeper.fill_next()
                last = self.kept.store.cuts.last()
                assert last
                self._witness.check(last)
            case _:
                self._witness.check(self.kept.keeper.advance(self.cut()))

    def cut(self) -> Cut:
        change(self.kept, self.random)
        cut = self.kept.source.cut()
        self._witness.note(cut)
        self._has_cut = True
        return cut

    def begin_anew(self, whole_seconds: float) -> None:
        self._gates.open(*(view.name for view in VIEWS))
        self.kept.keeper.close()
        self.kept.restart(whole_seconds, IMPATIENT)

    def end(self) -> Cut:
        self.begin_anew(0.0)
        cut = self.kept.keeper.bring(self.cut())
        self._witness.check(cut)
        return cut


@pytest.mark.parametrize("seed", [*range(2), *(further("another seed", seed) for seed in range(2, 24))])
def test_views_are_exact_wherever_a_cut_has_them(tmp_path: Path, gates: Gates, seed: int) -> None:
    """Whatever is computed for how long, and whatever happens to its tables meanwhile."""
    story = Story(tmp_path, gates, seed)
    for _ in range(40):
        story.go_on()
    assert has(*VIEWS)(story.end())
    assert not [line for line in story.kept.said if "further" in line]
