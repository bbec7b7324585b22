"""The list of labs: each can be loaded, names files that are there, and is on the page with its sentence."""

import re
from pathlib import Path

import pytest

from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.lab import logs
from cdc.lab.registry import LABS, Lab, find_lab

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_lab_can_be_loaded_and_names_both_editions_and_files_that_are_there(lab: Lab) -> None:
    assert callable(lab.load())
    assert [passage.split()[0] for passage in lab.book] == sorted(passage.split()[0] for passage in lab.book)
    assert {passage.split(", chapter")[0] for passage in lab.book} == {"first edition", "second edition"}
    assert lab.files
    assert [file for file in lab.files if not (ROOT / file).is_file()] == []
    assert lab.parts


def test_names_are_unique_and_on_the_page_with_their_sentence() -> None:
    page = (ROOT / "cdc" / "lab" / "README.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \|$", page, re.MULTILINE)
    assert rows == [(lab.name, lab.shows) for lab in LABS]
    assert len({lab.name for lab in LABS}) == len(LABS)


def test_an_unknown_name_is_told_with_the_near_ones() -> None:
    with pytest.raises(ConfigurationError, match="there is no lab dual-write → did you mean dual-writes"):
        find_lab("dual-write")
    with pytest.raises(ConfigurationError, match="there is no lab zzz → `cdc lab` lists them"):
        find_lab("zzz")


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needy_sums.py").write_text("import no_such_package.part\n")
    monkeypatch.setattr(logs, "__path__", [str(tmp_path)])
    with pytest.raises(
        PreconditionError, match="lab needy-sums needs the package no_such_package → pip install 'cdc-toolkit"
    ):
        Lab("logs.needy_sums", "", (), (), ()).load()
