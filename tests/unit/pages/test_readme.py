"""The README names every verb, and the test command that CI runs; its walkthrough is tried in `test_demo.py`."""

import re
import shlex
from pathlib import Path

import typer

from cdc.__main__ import VERBS
from cdc.cli.app import build

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def blocks() -> list[list[str]]:
    """The shell blocks of the README, as lines without comments."""
    found = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    return [[line.split(" #")[0].strip() for line in block.splitlines() if line.strip()] for block in found]


def walkthrough() -> list[list[str]]:
    """The words behind `cdc` of each line of the block that begins with `cdc up`."""
    walk = next(block for block in blocks() if block[0] == "cdc up")
    return [shlex.split(line)[1:] for line in walk]


def verbs() -> set[str]:
    made = typer.main.get_command(build(VERBS))
    return set(getattr(made, "commands", {}))


def test_every_verb_is_in_the_readme_and_no_other() -> None:
    named = set(re.findall(r"(?:^|`)cdc ([a-z-]+)", README, re.MULTILINE))
    assert named == verbs()


def test_the_test_command_is_the_one_that_ci_runs() -> None:
    command = "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest -n 3"
    assert [command] in blocks()
    install, test = command.replace("install -e", "install -q -e").rsplit(" && ", 1)
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines.index(install) < next(n for n, line in enumerate(lines) if line.split(" && ")[0] == test)


def test_what_the_quick_start_imports_is_what_it_installs() -> None:
    start = (ROOT / "docs" / "START.md").read_text()
    install = next(line for line in start.splitlines() if "pip install" in line)
    modules = {name for line in re.findall(r"^import (.+)$", start, re.MULTILINE) for name in line.split(", ")}
    assert modules == {"cdc", "polars"}
    assert "'.[serve]' polars " in install
