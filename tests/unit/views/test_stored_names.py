"""A refresh finds a view's rows whatever the case of the letters in its key, and of columns that it does not read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.lake.table.row_changes import RowChanges
from cdc.views.compiled import compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.refresh.evaluate import Evaluator
from cdc.views.refresh.refresh import ViewEngine, refresh
from cdc.views.refresh.row_hashes import hashed_schema
from cdc.views.refresh.rows import Tables
from cdc.views.statement.dialect.statements import DuckStatement
from tests.support.views.kept import KeptWithoutSpark
from tests.support.views.sales import CUSTOMERS
from tests.unit.views.refresh.test_refresh import MemoryTable

EVENTS = Table(TableName("public", "events"), (Column("Id", Kind.INTEGER), Column("at", Kind.TIMESTAMPTZ)), ("Id",))
VIEW = Table(TableName("v", "v"), (Column("theId", Kind.INTEGER),), ("theId",))


def test_letters_have_no_case_and_moments_that_nothing_reads_are_not_asked_for() -> None:
    compiled = compile_view(
        ViewDefinition.of("v.v", "SELECT id AS theId FROM events", ["THEID"]), {EVENTS.name: EVENTS}
    )
    state = MemoryTable(EVENTS, {1: {"Id": 1, "at": None}})
    changes = RowChanges(state.arrow([]).select(["Id"]), state.arrow().select(["Id"]))
    duckdb, asked = compiled.duckdb, list[tuple[str, ...]]()
    assert isinstance(duckdb, DuckStatement)

    def run(rows: Mapping[TableName, pa.Table]) -> pa.Table:
        return Evaluator().evaluate(duckdb.sql, {compiled.names[name]: each for name, each in rows.items()})

    def find(columns: Sequence[str], values: Sequence[pa.Array]) -> pa.Table:
        assert [value.to_pylist() for value in values] == [[1]]
        asked.append(tuple(columns))
        return hashed_schema(VIEW).empty_table()

    tables = Tables({EVENTS.name: state}, {EVENTS.name: changes})
    [found] = refresh(compiled.shape(VIEW), tables, ViewEngine(run, find), keys_at_once=9, most_keys=9)
    assert found.rows.to_pylist() == [{"theId": 1}]
    assert asked == [("theId",)]


def test_a_view_over_a_table_of_an_odd_name_is_kept_up(tmp_path: Path) -> None:
    odd = replace(CUSTOMERS, name=TableName("Shop", "Über b"))
    view = ViewDefinition.of("Sicht.Ä b", "SELECT k.id, k.name AS v FROM `Shop`.`Über b` k WHERE id > 1", ["id"])
    kept = KeptWithoutSpark(tmp_path, [odd], [view])
    for number in range(4):
        kept.source.put(odd.name.table, {"id": number, "name": "a"})
        cut = kept.keeper.bring(kept.source.cut())
        assert not [*kept.differences(cut)]
    assert [row["v"] for row in kept.rows(view, cut)] == ["a", "a"]
