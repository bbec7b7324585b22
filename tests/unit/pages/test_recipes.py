"""The recipes of docs/RECIPES.md, and other pieces of `cdc.yaml` in its folder, are read as `cdc config check` does."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from ruamel.yaml import YAML
from sqlglot import exp

from cdc.config.file import load
from cdc.config.settings import PipelineSettings
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.lake.history.shape import history_table
from cdc.sinks.search.settings import SearchSettings
from cdc.sinks.search.table_shapes import check_table
from cdc.views.compiled import compile_view
from cdc.views.explanation import explain
from tests.support.cdc_subprocess import ROOT
from tests.unit.config.test_settings import values

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))
KINDS = {
    "BIGINT": Column("", Kind.BIGINT),
    "INT": Column("", Kind.INTEGER),
    "TEXT": Column("", Kind.TEXT),
    "JSONB": Column("", Kind.JSON),
    "TIMESTAMPTZ": Column("", Kind.TIMESTAMPTZ),
    "DECIMAL(10, 2)": Column("", Kind.DECIMAL, 10, 2),
    "VECTOR(384)": Column("", Kind.VECTOR, type="public.vector"),
}
ENVIRON = {"LAKE_KEY": "key", "LAKE_SECRET": "secret", "MASK_SECRET": "0" * 16, "PG_PASSWORD": "secret"}


def list_blocks(kind: str) -> Iterator[tuple[str, str]]:
    """Blocks of this kind in the pages, each with the heading above it."""
    for page in PAGES:
        for part in re.split(r"^#+ ", (ROOT / page).read_text(), flags=re.MULTILINE):
            for block in re.findall(rf"^```{kind}\n(.*?)^```", part, re.DOTALL | re.MULTILINE):
                yield f"{page}: {part.partition(chr(10))[0]}", block


def read_tables() -> dict[TableName, Table]:
    """The tables of the page's statements."""
    statements = [block for _, block in list_blocks("sql") if block.startswith("CREATE TABLE")]
    found = [
        to_table(each) for each in sqlglot.parse(statements[0], dialect="postgres") if isinstance(each, exp.Create)
    ]
    return {table.name: table for table in found}


def to_table(create: exp.Create) -> Table:
    columns, primary = [*create.find_all(exp.ColumnDef)], create.find(exp.PrimaryKey)
    keys = [each.name for each in columns if each.find(exp.PrimaryKeyColumnConstraint)]
    named = keys or [each.name for each in (primary.expressions if primary else ())]
    typed = (KINDS[each.args["kind"].sql(dialect="postgres")] for each in columns)
    made = tuple(
        Column(each.name, kind.kind, kind.precision, kind.scale) for each, kind in zip(columns, typed, strict=True)
    )
    return Table(TableName("public", create.this.this.name), made, tuple(named))


RECIPES = dict(list_blocks("yaml"))
TABLES = read_tables()


def merge(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    both = {name: merge(base[name], more[name]) for name in base.keys() & more if isinstance(base[name], dict)}
    return {**base, **more, **both}


def read_recipe(recipe: str, folder: Path) -> PipelineSettings:
    """The settings of a file that has this recipe beside a pipeline of ours."""
    source = {**values()["source"], "tables": [str(name) for name in TABLES], "password": "${env:PG_PASSWORD}"}
    base = {**values(), "source": source}
    place = folder / "cdc.yaml"
    YAML(typ="safe").dump(merge(base, YAML(typ="safe").load(recipe)), place)
    return load(place, ENVIRON)


def test_there_are_tables_and_recipes() -> None:
    assert len(TABLES) == 7
    assert len([name for name in RECIPES if name.startswith("docs/RECIPES.md")]) == 11


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_taken_and_its_views_go_by_keys(name: str, tmp_path: Path) -> None:
    settings = read_recipe(RECIPES[name], tmp_path)
    kept = [history_table(table) for table in TABLES.values() if table.name in settings.histories]
    tables = TABLES | {table.name: table for table in kept}
    ways = {use.way for view in settings.view_definitions for use in explain(compile_view(view, tables)).uses}
    assert not any("whole" in way for way in ways)
    for search in (each for each in settings.followers.values() if isinstance(each, SearchSettings)):
        for text in search.indexes:
            check_table(TABLES[TableName.parse(text)], search)
