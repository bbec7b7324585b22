"""`cdc down --wipe` names what it leaves."""

from pathlib import Path

import pytest

from cdc.__main__ import main
from cdc.cli.kept import lakes
from cdc.local.state_dir import Home

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Path:
    """Where a pipeline of its own and a demo were run; their parts never were."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CDC_CONFIG", raising=False)
    monkeypatch.setenv("CDC_SOURCE_PASSWORD", "x")
    assert main(["init"]) == 0
    (tmp_path / "cdc-broken.yaml").write_text("version: 7\n")
    for table in ("lake/public/orders", ".cdc/demo lake/public/flights"):
        (tmp_path / table / "_delta_log").mkdir(parents=True)
    capsys.readouterr()
    return tmp_path


def test_the_lakes_are_named_and_stay(folder: Path, capsys: Captured) -> None:
    assert main(["down", "--wipe", "--yes"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == [
        "nothing was running",
        "removed the data, ports, passwords and logs of the local parts in .cdc",
    ]
    assert said[2:4] == [
        "kept the lake .cdc/demo lake → rm -r '.cdc/demo lake', if it was copied from the Postgres that is gone now",
        "kept the lake lake → rm -r lake, if it was copied from the Postgres that is gone now",
    ]
    assert said[4].startswith("kept the configurations, and the downloads in ")
    assert (folder / "lake/public/orders/_delta_log").is_dir()


def test_the_question_names_them(folder: Path, capsys: Captured) -> None:
    assert main(["down", "--wipe"]) == 8
    assert (
        "remove all data of the local parts in .cdc (not the lakes: .cdc/demo lake, lake)?" in capsys.readouterr().err
    )


def test_stopping_says_nothing_of_lakes(folder: Path, capsys: Captured) -> None:
    assert main(["down"]) == 0
    assert capsys.readouterr().err == "nothing was running\n"


def test_a_lake_elsewhere_is_named_as_the_configuration_has_it(folder: Path) -> None:
    text = (folder / "cdc.yaml").read_text()
    (folder / "cdc.yaml").write_text(text.replace("path: lake", "path: s3://bucket/lake"))
    assert lakes(Home(folder / ".cdc"), folder / "cdc.yaml") == [str(folder / ".cdc/demo lake"), "s3://bucket/lake"]


def test_a_lake_elsewhere_is_not_a_folder_to_remove(folder: Path, capsys: Captured) -> None:
    text = (folder / "cdc.yaml").read_text()
    (folder / "cdc.yaml").write_text(text.replace("path: lake", "path: s3://bucket/lake"))
    assert main(["down", "--wipe", "--yes"]) == 0
    assert "kept the lake s3://bucket/lake → delete what lies there, if it was copied" in capsys.readouterr().err


def test_a_lake_that_was_never_made_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SOURCE_PASSWORD", "x")
    assert main(["init", "-o", str(tmp_path / "cdc.yaml")]) == 0
    assert lakes(Home(tmp_path / ".cdc"), tmp_path / "cdc.yaml") == []
