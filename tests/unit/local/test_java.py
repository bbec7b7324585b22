"""Which Java is good enough, from what it says about itself."""

from pathlib import Path

import pytest

from cdc.core.errors import PreconditionError
from cdc.local.servers import java

FULL = "java.base@{0}\njava.management@{0}\njdk.localedata@{0}\njdk.unsupported@{0}\njdk.zipfs@{0}\n"


@pytest.mark.parametrize(
    ("said", "version"),
    [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("11.0.2", 11)],
)
def test_major_version_is_read(said: str, version: int) -> None:
    assert java.major_version(FULL.format(said)) == version


def test_java_without_modules_has_no_version() -> None:
    assert java.major_version("Unrecognized option: --list-modules") is None


def _program(folder: Path, says: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{says}END\n")
    program.chmod(0o755)
    return program


def test_suitable_java_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program(tmp_path, FULL.format("17.0.1"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.find_java() == java.Java(program, 17)


@pytest.mark.parametrize(
    ("says", "complaint"),
    [
        (FULL.format("11.0.2"), "is Java 11"),
        ("no modules\n", "older than Java 17"),
        ("java.base@17.0.1\njava.management@17.0.1\n", "trimmed Java without jdk.localedata"),
    ],
)
def test_unsuitable_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, complaint: str) -> None:
    _program(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PreconditionError, match=complaint):
        java.find_java()


def test_missing_java_has_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PreconditionError, match=r"no java on PATH.*install a full JDK 17"):
        java.find_java()


def test_wrong_java_home_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PreconditionError, match="JAVA_HOME is "):
        java.find_java()
