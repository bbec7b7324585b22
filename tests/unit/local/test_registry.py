"""What a registry that fails, damages or is not trusted leads to: few requests, no half file, one line."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import stamina

from cdc.__main__ import main
from cdc.core.errors import UnreachableError
from cdc.local.fetch.artifacts import Artifact
from cdc.local.fetch.registry import REGISTRY_VARIABLE, download, open_registry
from cdc.progress import Silent
from tests.unit.local.https_server import Answers, authority_file, https, known_by_nobody

__all__ = ["https"]

JAR = b"the jar" * 1000
THING = Artifact("org.example:thing:1.0", hashlib.sha256(JAR).hexdigest(), len(JAR))
WHERE = f"/{THING.path.as_posix()}"
Fetch = Callable[[], Path]


class Heard(Silent):
    """What was told, and how many bytes came."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.came = 0

    def step(self, name: str, text: str) -> None:
        self.steps.append(f"{name}: {text}")

    def advance(self, count: int) -> None:
        self.came += count


@pytest.fixture(autouse=True)
def _no_rest() -> Iterator[None]:
    """What is tried again is tried at once."""
    with stamina.set_testing(True, attempts=4, cap=True):
        yield


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def fetch(https: Answers, heard: Heard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fetch:
    """Fetches the thing from a registry whose authority the environment names."""
    monkeypatch.setenv("SSL_CERT_FILE", authority_file(https, tmp_path))
    monkeypatch.setenv(REGISTRY_VARIABLE, https.url)

    def run() -> Path:
        with open_registry(tmp_path / "jars", heard, heard.advance) as registry:
            return download(THING, registry)

    return run


def left_behind(folder: Path) -> list[Path]:
    return [path for path in (folder / "jars").rglob("*") if path.is_file()]


def test_whole_download_has_mavens_path(https: Answers, fetch: Fetch, heard: Heard, tmp_path: Path) -> None:
    https.put(WHERE, (200, JAR))
    assert fetch() == tmp_path / "jars" / THING.path
    assert left_behind(tmp_path) == [tmp_path / "jars" / THING.path]
    assert fetch().read_bytes() == JAR
    assert (heard.came, heard.steps) == (2 * len(JAR), [])


def test_failing_registry_is_retried_and_reported_once(https: Answers, fetch: Fetch, heard: Heard) -> None:
    https.put(WHERE, (503, b""), (200, JAR[:-1]), (200, JAR))
    assert fetch().read_bytes() == JAR
    host = https.url.removeprefix("https://")
    assert heard.steps == [f"registry: {host} does not answer as it should, trying again"]
    assert heard.came == len(JAR)


def test_missing_artifact_is_not_retried(https: Answers, fetch: Fetch, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"cannot fetch org.example:thing:1.0 from localhost:\d+ \(HTTP 404\)"):
        fetch()
    assert (https.asked, left_behind(tmp_path)) == ([WHERE], [])


def test_damaged_download_leaves_no_file(https: Answers, fetch: Fetch, heard: Heard, tmp_path: Path) -> None:
    https.put(WHERE, (200, JAR[::-1]))
    with pytest.raises(UnreachableError, match="another checksum"):
        fetch()
    assert (heard.came, left_behind(tmp_path)) == (0, [])


def test_untrusted_certificate_is_not_retried(
    fetch: Fetch, heard: Heard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known_by_nobody(monkeypatch, tmp_path)
    with pytest.raises(UnreachableError, match=r"certificate of localhost:\d+ is not trusted \(.+\) → .*SSL_CERT_FILE"):
        fetch()
    assert heard.steps == []


def test_password_in_the_address_is_not_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, heard: Heard) -> None:
    monkeypatch.setenv(REGISTRY_VARIABLE, "http://me:canary@127.0.0.1:9/repository")
    with open_registry(tmp_path, heard, heard.advance) as registry, pytest.raises(UnreachableError) as failed:
        download(THING, registry)
    assert "canary" not in f"{failed.value} {heard.steps}"


def test_silent_registry_prints_two_lines_and_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight downloads at once, four attempts each: what is repeated is told once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CDC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(REGISTRY_VARIABLE, "http://127.0.0.1:9")
    assert main(["up", "--only", "kafka"]) == UnreachableError.exit_code
    fetching, again, error = capsys.readouterr().err.splitlines()
    assert fetching.startswith("kafka: fetching")
    assert again == "registry: 127.0.0.1:9 does not answer as it should, trying again"
    assert error.startswith("error: cannot fetch org.")
    assert not list((tmp_path / "cache").rglob("*.jar*"))
