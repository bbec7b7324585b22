"""DuckDB copies a macro's body to where it is called, and arguments into it: each may be there once only."""

import re

import pytest

from cdc.views.statement.dialect import macros

MACROS = {
    name: ([each.strip() for each in arguments.split(",")], body)
    for name, arguments, body in re.findall(r"CREATE MACRO (\w+)\(([^)]*)\) AS (.*?);\n", macros._SQL, re.DOTALL)
}
LITERALS = {"back", "size", "form", "slide", "first"}
"""Arguments that are numbers or texts in the statement, and grow with nothing."""


def test_there_are_macros() -> None:
    assert len(MACROS) == macros._SQL.count("CREATE MACRO")


@pytest.mark.parametrize("name", MACROS)
def test_an_argument_is_once_in_the_body_of_its_macro(name: str) -> None:
    arguments, body = MACROS[name]
    for argument in {*arguments} - LITERALS:
        # not the name of a field, `v.x` or 'x':
        found = re.findall(rf"(?<![.'\w]){argument}(?!['\w])", body)
        assert len(found) == 1, (argument, body)
