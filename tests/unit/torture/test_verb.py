"""`cdc torture` plans without starting anything, and refuses what it cannot do before that."""

from pathlib import Path

import pytest

from cdc.__main__ import main
from cdc.torture.schedule import FaultSchedule, plan


def test_plan_is_the_schedule_of_the_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["torture", "--seed", "5", "--minutes", "2", "--plan"]) == 0
    said = capsys.readouterr().out
    file = tmp_path / "it.json"
    file.write_text(said)
    assert FaultSchedule.read(file) == plan(5, 2, 30)
    assert main(["torture", "--schedule", str(file), "--plan"]) == 0
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("option", ["--schedule", "--folder"])
def test_what_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["torture", option, str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err
