"""Fetching from the real registry: once, checked, and again what is damaged."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdc.core.errors import UnreachableError
from cdc.local.fetch.artifacts import artifacts_for
from cdc.local.fetch.jars import fetch
from cdc.local.fetch.registry import REGISTRY_VARIABLE
from cdc.progress import FIRST_ROWS, ROWS, Advance, Silent, Unit

NOWHERE = "http://127.0.0.1:9"


class Counting(Silent):
    """How much was announced, and how much came."""

    def __init__(self) -> None:
        self.announced = 0
        self.came = 0

    @contextmanager
    def bar(
        self, name: str, total: int | None = None, *, unit: Unit = ROWS, waiting_for: str = FIRST_ROWS
    ) -> Iterator[Advance]:
        self.announced += total or 0
        yield self._advance

    def _advance(self, count: int) -> None:
        self.came += count


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    fetch("debezium", folder)
    return folder


def test_all_of_a_part_comes_with_its_progress(tmp_path: Path) -> None:
    progress = Counting()
    files = fetch("debezium", tmp_path, progress)
    assert [file.stat().st_size for file in files] == [artifact.size for artifact in artifacts_for("debezium")]
    assert progress.announced == progress.came == sum(artifact.size for artifact in artifacts_for("debezium"))


def test_a_second_time_needs_no_network(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REGISTRY_VARIABLE, NOWHERE)
    progress = Counting()
    assert all(file.exists() for file in fetch("debezium", cache, progress))
    assert progress.announced == 0


def test_damaged_and_partial_files_are_fetched_again(cache: Path) -> None:
    flipped, partial, missing, *_ = fetch("debezium", cache)
    whole = [file.read_bytes() for file in (flipped, partial, missing)]
    flipped.write_bytes(bytes([whole[0][0] ^ 1]) + whole[0][1:])
    partial.write_bytes(whole[1][:1000])
    missing.unlink()
    progress = Counting()
    fetch("debezium", cache, progress)
    assert [file.read_bytes() for file in (flipped, partial, missing)] == whole
    assert progress.announced == sum(map(len, whole))


def test_an_unreachable_registry_names_the_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REGISTRY_VARIABLE, NOWHERE)
    with pytest.raises(UnreachableError, match=r"cannot fetch \S+:\S+:\S+ .*check the network"):
        fetch("debezium", tmp_path)
    assert not list(tmp_path.rglob("*.jar"))
