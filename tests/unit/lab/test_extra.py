"""Without the extra `lab`: one line says what to install, nothing is started, and all else works."""

import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from cdc.demo.flights import data

WITHOUT = """
import sys
sys.modules |= dict.fromkeys(("drawsvg", "datasketches"))
from cdc.demo.flights import data
data.PACKAGE = "no-such-data"
from cdc.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
INSTALL = "→ pip install 'cdc-toolkit[lab]'"


def run_without_extra(folder: Path, *verb: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", WITHOUT, "-c", str(folder / "cdc.yaml"), *verb]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("verb", "line"),
    [
        (
            ["lab", "approximate"],
            f"error: lab approximate needs the package datasketches {INSTALL}, if it is there for this Python",
        ),
        (["demo"], f"error: the data set no-such-data is not installed {INSTALL}"),
    ],
)
def test_who_lacks_the_extra_is_told_what_to_install(tmp_path: Path, verb: list[str], line: str) -> None:
    done = run_without_extra(tmp_path, *verb)
    assert (done.returncode, done.stderr.splitlines()) == (3, [line])
    # nothing was started
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", [["lab"], ["demo", "--help"], ["init", "--help"], ["types"]], ids=" ".join)
def test_all_else_needs_no_extra(tmp_path: Path, verb: list[str]) -> None:
    done = run_without_extra(tmp_path, *verb)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_extra_has_what_is_missing_without_it() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    distributions = packages_distributions()
    needed = {distributions[module][0] for module in ("drawsvg", "datasketches")} | {data.PACKAGE}
    listed = [line.split("==")[0] for line in project["optional-dependencies"]["lab"]]
    # the page, too: the lab's readers try everything
    assert (set(listed), project["name"]) == ({*needed, "cdc-toolkit[serve]"}, "cdc-toolkit")
    assert not any(line.startswith(tuple(needed)) for line in project["dependencies"])
