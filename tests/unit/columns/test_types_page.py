"""The page about types is what the code does."""

from pathlib import Path

from ruamel.yaml import YAML

from cdc.connect.settings import SourceSettings
from cdc.core.table import TableName
from cdc.run.type_table import to_markdown
from tests.support.pages import read_example

PAGE = Path(__file__).parents[3] / "cdc/columns/TYPES.md"
REST = {"host": "db", "dbname": "shop", "user": "cdc", "password": "secret", "tables": ["public.prices", "sales.*"]}


def test_types_page_matches_the_code() -> None:
    assert PAGE.read_text().endswith(f"\n\n{to_markdown()}\n"), "run `cdc types --markdown`, and put it there"


def test_example_of_the_page_is_taken() -> None:
    chosen = YAML(typ="safe").load(read_example("cdc/columns/TYPES.md"))["source"]
    choices = SourceSettings.model_validate({**REST, **chosen}).choices
    prices, sales = choices.types_of(TableName("public", "prices")), choices.types_of(TableName("sales", "any"))
    assert {column: str(choice) for column, choice in prices.named.items()} == {
        "amount": "decimal(12,2)",
        "note_day": "text",
    }
    assert str(sales.numerics) == "decimal(38,9)"
