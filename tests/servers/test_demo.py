"""The demos as a user runs them: in an empty folder, with real servers; everything is gone afterwards."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.local.services import Home, down, wipe

RACE = ("demo", "race", "--json", "--pairs", "200", "--seed", "11")
ROOT = Path(__file__).parents[2]
MINUTES = 60

pytestmark = pytest.mark.timeout(30 * MINUTES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder to run in; the parts that came up in it are stopped, and their data removed."""
    made = tmp_path_factory.mktemp("demo")
    try:
        yield made
    finally:
        home = Home(made / ".cdc")
        down(home)
        wipe(home)


def cdc(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-m", "cdc", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=15 * MINUTES,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    return ended


def ran(folder: Path, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cdc(folder, *arguments).stdout)
    return found


def test_dual_writes_diverge_and_the_log_does_not(folder: Path) -> None:
    found = ran(folder, *RACE)
    assert found.keys() == {"pairs", "dual_write_diverged", "partial_failure_diverged", "cdc_diverged", "seed"}
    assert (found["pairs"], found["seed"], found["cdc_diverged"]) == (200, 11, 0)
    assert 2 <= found["dual_write_diverged"] <= 200
    assert found["partial_failure_diverged"] == 5


def test_second_race_reuses_its_pipeline(folder: Path) -> None:
    ended = cdc(folder, "demo", "race", "--pairs", "60", "--seed", "11")
    assert "the database holds 62 keys, the index 62; 0 differ" in ended.stderr
    assert "X=A → index" in ended.stderr
    assert [line.split()[-2:] for line in ended.stdout.splitlines()[-1:]] == [["62", "0"]]


def test_the_demo_proves_its_followers_equal(folder: Path) -> None:
    found = ran(folder, "demo", "--json", "--changes", "1500", "--seed", "3")
    assert found["equal"] is True
    assert set(found["verify"]["followers"]) == {"lake", "search", "latest"}
    assert found["rows_loaded"]["flights"] == 336_776
    assert found["changes"] >= 1500
    assert found["rolled_back"] > 0


def test_second_demo_reuses_its_pipeline_and_leaves_nothing_running(folder: Path) -> None:
    found = ran(folder, "demo", "--json", "--changes", "200", "--seed", "3", "--down")
    assert (found["equal"], found["rows_loaded"], found["rows_copied"]) == (True, {}, {})
    assert {each["running"] for each in json.loads(cdc(folder, "parts", "--json").stdout)} == {False}
