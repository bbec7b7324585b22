"""The table of what is proven, as cdc/views/statement/PROVEN.md has it."""

from collections.abc import Mapping
from pathlib import Path

from tests.support.views.proof import Form, Outcome

PLACE = Path(__file__).parents[3] / "cdc" / "views" / "statement" / "PROVEN.md"
_HEAD = """\
# What is proven to mean the same in Spark and in DuckDB

Written by tests/spark/test_proven_functions.py (`CDC_WRITE_PROVEN=1`), which compares the engines value by value.
`types`: combinations of types of the arguments that the list accepts. `values`: compared, equal all. `errors`: values
for which both engines have an error. `asked`: values for which only DuckDB has an error, so that Spark is asked.

| | expression | types | values | errors | asked |
|---|---|---:|---:|---:|---:|
"""


def render(outcomes: Mapping[Form, Outcome]) -> str:
    """The table of these outcomes."""
    lines = [
        f"| {form.name} | `{form.text.replace('|', '&#124;')}` | {found.types} | {found.compared} | {found.both_fail}"
        f" | {found.left_to_spark} |"
        for form, found in outcomes.items()
    ]
    total = sum(found.compared for found in outcomes.values())
    return _HEAD + "\n".join(lines) + f"\n\nAll together: {len(outcomes)} expressions, {total} values.\n"
