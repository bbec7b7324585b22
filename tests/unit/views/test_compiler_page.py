"""The page that follows one statement through the compiler shows what the compiler gives."""

import re
from pathlib import Path

from cdc.views import compiled
from cdc.views.definition import ViewDefinition
from cdc.views.explanation import explain
from cdc.views.statement.analysis.provenance import NOWHERE, Provenance
from cdc.views.statement.dialect import macros
from cdc.views.statement.dialect.statements import DuckStatement, compute_in_duckdb
from cdc.views.statement.tree.nodes import Derived, Scan, Source
from tests.support.views.sales import CUSTOMERS, ORDERS

VIEWS = Path(compiled.__file__).parent
STATEMENT, SOURCES, ROUTES, MACRO, WRITTEN = re.findall(
    r"```\w*\n(.*?)```", (VIEWS / "COMPILER.md").read_text(), re.DOTALL
)
VIEW = compiled.compile_view(
    ViewDefinition.of("shop.days", STATEMENT, ["id", "day"]), {each.name: each for each in (CUSTOMERS, ORDERS)}
)


def test_its_sources_are_those_of_the_tree() -> None:
    assert sorted(SOURCES.splitlines()) == sorted(map(show, VIEW.statement.tree.sources.values()))


def show(source: Source) -> str:
    assert isinstance(source, Scan | Derived)
    if isinstance(source, Scan):
        return f"{source.name:7} Scan     of {source.table.name}"
    return f"{source.name:7} Derived  {', '.join(output.name for output in source.query.outputs)}"


def test_the_columns_behind_its_outputs_are_those_of_the_analysis() -> None:
    provenance, root = Provenance(VIEW.statement, (), compute_in_duckdb), VIEW.statement.tree.root
    found = {output.name: provenance.output(root, output.name) for output in root.outputs}
    assert found == {
        "id": {("c", "id")},
        "day": {("orders", "=DATE_TRUNC('DAY', placed_at)")},
        **dict.fromkeys(("name", "orders", "largest"), NOWHERE),
    }


def test_its_routes_are_those_of_the_plan() -> None:
    assert ROUTES.splitlines() == [f"{use.table:19} {use.way}" for use in explain(VIEW).uses]


def test_its_texts_are_those_of_the_dialect() -> None:
    assert MACRO in macros._SQL
    assert isinstance(VIEW.duckdb, DuckStatement)
    assert " ".join(WRITTEN.split()) == VIEW.duckdb.sql
