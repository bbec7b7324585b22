"""A number of docs/COSTS.md is one that the page has which it names as its source."""

import os
import re

import pytest

from tests.support.cdc_subprocess import ROOT

ROWS = [
    line for line in (ROOT / "docs" / "COSTS.md").read_text().splitlines() if re.match(r"\|.*\]\([^)]+\) \|$", line)
]
NUMBER = re.compile(r"\d[\d,.]*\d|\d")


@pytest.mark.parametrize("row", ROWS)
def test_a_number_is_that_of_its_source(row: str) -> None:
    [link] = re.findall(r"\]\(([^)#]+)[^)]*\) \|$", row)
    source = (ROOT / os.path.normpath(f"docs/{link}")).read_text()
    told = re.sub(r"`[^`]*`|\]\([^)]*\)", "", row)
    assert {*NUMBER.findall(told)} <= {*NUMBER.findall(source)}


def test_there_are_rows_with_a_source() -> None:
    assert len(ROWS) > 10
