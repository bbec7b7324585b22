"""Runs labs on the parts of the tests."""

from typing import Any

from cdc.lab.lesson import Findings
from cdc.lab.registry import find_lab
from cdc.lab.workplace import Parts, open_workplace
from tests.support.parts.servers_fixture import Servers

SEED = 11


def watch(servers: Servers, name: str, seed: int = SEED) -> Findings:
    """Run a lab; its figure can be drawn."""
    with open_workplace(Parts(servers.values, servers.password), seed, lambda _: None) as place:
        found = find_lab(name).load()(place)
    assert found.figure.draw().startswith("<?xml")
    assert all(len(row) == len(found.columns) for row in found.rows)
    return found


def cell(found: Findings, row: str, column: str) -> Any:
    """The value in the row of this name. Raises KeyError for a row or a column that is not there."""
    by_name = {str(cells[0]): cells for cells in found.rows}
    return dict(zip(found.columns, by_name[row], strict=True))[column]
