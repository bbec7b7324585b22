"""Fail points: what the environment says of them happens once, at the passage that it names, and nowhere else."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.__main__ import main
from cdc.core.errors import ConfigurationError
from cdc.core.fail_points import NAMES, VARIABLE, FailPointError, arm, list_armed, reach
from tests.cells.cell import REACHED

ROOT = Path(__file__).parents[3]
PRODUCT = ("cdc", "connect", "sinks", "snapshots")


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm("")


def test_a_point_that_is_not_armed_does_nothing() -> None:
    arm("lake.cut.before:raise")
    reach("lake.cut.after")
    assert list_armed() == ["lake.cut.before"]


def test_raises_once_at_the_passage_that_is_named() -> None:
    arm("lake.cut.after:raise@2")
    reach("lake.cut.after")
    with pytest.raises(FailPointError, match=r"fail point lake\.cut\.after"):
        reach("lake.cut.after")
    reach("lake.cut.after")
    assert not list_armed()


def test_stalls_for_so_many_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = list[float]()
    # not in all of Python: other threads sleep as well
    monkeypatch.setattr("cdc.core.fail_points.sleep", waited.append)
    arm("search.written:stall=1.5, latest.sent:raise")
    reach("search.written")
    assert waited == [1.5]
    assert list_armed() == ["latest.sent"]


def test_kills_its_own_process() -> None:
    code = "from cdc.core.fail_points import *; arm('lake.read:kill'); reach('lake.read'); print('it lives')"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (-9, "")


@pytest.mark.parametrize(
    "text", ["lake.read", "lake.read:explode", "lake.read:kill@0", "lake.read:stall", "nowhere:kill"]
)
def test_what_is_not_understood_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text.partition(":")[0])):
        arm(text)


def test_a_verb_reads_them_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "nowhere:kill")
    assert main(["version"]) == ConfigurationError.exit_code
    assert capsys.readouterr().err.startswith(f"error: {VARIABLE}: there is no fail point 'nowhere'")


def test_every_name_is_one_place_of_the_product() -> None:
    found = Counter[str]()
    for file in (file for folder in PRODUCT for file in (ROOT / folder).rglob("*.py") if not file.is_symlink()):
        found.update(re.findall(r"\breach\(\"([a-z.]+)\"\)", file.read_text()))
    assert found == Counter(dict.fromkeys(NAMES, 1))


def test_every_name_is_reached_by_cells() -> None:
    assert {name for names in REACHED.values() for name in names} == {*NAMES}
