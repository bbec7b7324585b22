"""What a demo does to what it finds."""

from pathlib import Path

import pytest

from cdc.demo.environment import put_aside


def test_lake_of_an_earlier_database_is_put_aside_not_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lake = tmp_path / "lake"
    put_aside(lake)
    for number in (1, 2):
        lake.mkdir()
        (lake / "rows").write_text(f"of lake {number}")
        put_aside(lake)
        assert f"put aside: lake-{number}" in capsys.readouterr().err
    assert not lake.exists()
    assert [(tmp_path / f"lake-{number}" / "rows").read_text() for number in (1, 2)] == ["of lake 1", "of lake 2"]
