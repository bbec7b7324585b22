"""The README's commands exist, and its walkthrough works as it is written."""

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import typer

from cdc.__main__ import VERBS
from cdc.cli.app import build
from cdc.local.services import Home, down, endpoints, wipe
from tests.commands import LIMIT_SECONDS, ROOT

README = (ROOT / "README.md").read_text()
WALK = ("up", "init", "config", "bootstrap", "follow", "status", "verify")
pytestmark = pytest.mark.timeout(1200)


def blocks() -> list[list[str]]:
    """The shell blocks of the README, as lines without comments."""
    found = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    return [[line.split(" #")[0].strip() for line in block.splitlines() if line.strip()] for block in found]


def verbs() -> set[str]:
    made = typer.main.get_command(build(VERBS))
    return set(getattr(made, "commands", {}))


def test_every_verb_is_in_the_readme_and_no_other() -> None:
    named = set(re.findall(r"`cdc ([a-z-]+)", README))
    assert named == verbs()


def test_the_test_command_is_the_one_that_ci_runs() -> None:
    command = "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest -n 3"
    assert [command] in blocks()
    install, test = command.replace("install -e", "install -q -e").rsplit(" && ", 1)
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines.index(install) < next(n for n, line in enumerate(lines) if line.split(" && ")[0] == test)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the walk is done; the parts that came up there are stopped, and their data removed."""
    try:
        yield tmp_path
    finally:
        home = Home(tmp_path / ".cdc")
        down(home)
        wipe(home)


def test_readme_walkthrough_works(folder: Path) -> None:
    walk = next(block for block in blocks() if block[0] == "cdc up")
    commands = [shlex.split(line)[1:] for line in walk]
    assert tuple(command[0] for command in commands) == WALK
    for command in commands:
        if command[0] == "follow":
            following = start(folder, *command)
            continue
        run(folder, *command)
        if command[0] == "up":
            make_orders(folder)
    following.send_signal(signal.SIGINT)
    assert following.wait(LIMIT_SECONDS) == 0


def run(folder: Path, *arguments: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "cdc", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, (arguments, ended.stdout, ended.stderr)


def start(folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "cdc", *arguments], cwd=folder, env=environment())


def environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}


def make_orders(folder: Path) -> None:
    found = endpoints(Home(folder / ".cdc"))
    with psycopg.connect(found.postgres_dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, total numeric(10, 2))")
        connection.execute("INSERT INTO orders SELECT g, g * 1.5 FROM generate_series(1, 100) g")
