"""The table of second paths names tests that exist, and all that happens to its pipeline is in a round."""

import ast
from pathlib import Path

import pytest

from tests.servers.second_paths.cells import ALWAYS, BY, FEATURES, ROUNDS, read_table

ROOT = Path(__file__).parents[3]
HAPPENINGS = "servers/second_paths/happenings.py"


def list_functions(file: str) -> set[str]:
    """The functions of a file below `tests/`."""
    tree = ast.parse((ROOT / "tests" / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_cell_has_a_known_word() -> None:
    table = read_table()
    assert all(tuple(cells) == FEATURES for cells in table.values())
    assert {word for cells in table.values() for word in cells.values()} == set(BY)


@pytest.mark.parametrize("word", BY)
def test_what_a_cell_names_is_there(word: str) -> None:
    assert BY[word].function in list_functions(BY[word].file)


def test_all_that_happens_to_the_shared_pipeline_is_in_a_round() -> None:
    shared = {name for name, cells in read_table().items() if "here" in cells.values()}
    happen = {name for names in ROUNDS.values() for name in names}
    assert happen == shared - {*ALWAYS}
    assert happen <= list_functions(HAPPENINGS)
    assert next(iter(ROUNDS.values()))[0] == "join_later"
