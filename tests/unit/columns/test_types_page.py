"""The page about types is what the code does."""

from pathlib import Path

from cdc.run.type_table import to_markdown

PAGE = Path(__file__).parents[3] / "cdc/columns/TYPES.md"


def test_types_page_matches_the_code() -> None:
    assert PAGE.read_text().endswith(f"\n\n{to_markdown()}\n"), "run `cdc types --markdown`, and put it there"
