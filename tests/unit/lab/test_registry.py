"""The list of labs: each can be loaded, names files that are there, and is on the page with its sentence."""

import re
from pathlib import Path

import pytest

from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.registry import LABS, Listing, find_lab

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("listing", LABS, ids=lambda listing: listing.name)
def test_a_lab_names_both_editions_and_files_that_are_there(listing: Listing) -> None:
    lab = listing.load()
    assert {passage.chapter.edition for passage in lab.passages} == {"first", "second"}
    assert lab.files
    assert [file for file in lab.files if not (ROOT / file).is_file()] == []
    assert lab.parts


def test_names_are_unique_and_on_the_page_with_their_sentence() -> None:
    page = (ROOT / "cdc" / "lab" / "README.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \|$", page, re.MULTILINE)
    assert rows == [(listing.name, listing.shows) for listing in LABS]
    assert len({listing.name for listing in LABS}) == len(LABS)


def test_an_unknown_name_is_told_with_the_near_ones() -> None:
    with pytest.raises(ConfigurationError, match="there is no lab dual-write → did you mean dual-writes"):
        find_lab("dual-write")
    with pytest.raises(ConfigurationError, match="there is no lab zzz → `cdc lab` lists them"):
        find_lab("zzz")


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needy.py").write_text("import no_such_package.part\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PreconditionError, match="lab sums needs the package no_such_package → pip install no_such"):
        Listing("sums", "needy", "").load()


def test_a_passage_is_one_that_the_chapter_has() -> None:
    assert str(Passage(FIRST, "Messaging Systems", "Multiple consumers")) == (
        "first edition, chapter 11, Stream Processing: Messaging Systems (Multiple consumers)"
    )
    with pytest.raises(ValueError, match="no section 'Partitioned Logs'"):
        Passage(SECOND, "Partitioned Logs")
    with pytest.raises(ValueError, match="with 'Log compaction'"):
        Passage(FIRST, "Messaging Systems", "Log compaction")
