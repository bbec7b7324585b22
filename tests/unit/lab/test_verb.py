"""`cdc lab` without parts: the list, and what is wrong before anything is started."""

import json
from pathlib import Path

import pytest

from cdc.__main__ import main
from cdc.lab.registry import LABS


def test_the_list_has_every_lab(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [listing.name for listing in LABS]


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"lab": LABS[0].name, "shows": LABS[0].shows}


def test_what_is_wrong_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(tmp_path / "cdc.yaml")
    missing = tmp_path / "missing" / "figure.svg"
    wrong = {
        ("lab", "directs"): (2, "error: there is no lab directs → did you mean direct? `cdc lab` lists them"),
        ("lab", "--svg", "x.svg"): (
            2,
            "error: --svg draws a run of one lab, and none is named → cdc lab NAME --svg FILE",
        ),
        ("lab", "direct", "--svg", str(missing)): (
            3,
            f"error: cannot write {missing} → name a file in a folder that you may write",
        ),
        ("lab", "direct", "--svg", str(tmp_path)): (
            3,
            f"error: cannot write {tmp_path} → name a file in a folder that you may write",
        ),
    }
    for arguments, (code, line) in wrong.items():
        assert main(["-c", config, *arguments]) == code
        assert capsys.readouterr().err.splitlines() == [line]
    # nothing was started
    assert list(tmp_path.iterdir()) == []
