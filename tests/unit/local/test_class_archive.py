"""The archive of loaded classes, with a real Java machine."""

import subprocess
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from cdc.local.running.class_archive import ClassArchive
from cdc.local.servers.java import find_java

CODEC = next((Path(_find_spark_home()) / "jars").glob("commons-codec-*.jar"))
DIGEST = b"900150983cd24fb0d6963f7d28e17f72\n"


def started(*options: str) -> "subprocess.Popen[bytes]":
    """A program with classes of its own, from a jar of Spark's; it says a digest and ends."""
    command = [
        str(find_java().program),
        *options,
        "-cp",
        str(CODEC),
        "org.apache.commons.codec.cli.Digest",
        "MD5",
        "abc",
    ]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def kept(archive: ClassArchive) -> None:
    said(*archive.options())
    archive.keep()


def said(*options: str) -> tuple[int, bytes]:
    with started(*options) as process:
        output, _ = process.communicate(timeout=60)
    return process.returncode, output


@pytest.fixture
def archive(tmp_path: Path) -> ClassArchive:
    return ClassArchive.of(find_java().program, [str(CODEC)], tmp_path)


def test_archive_of_one_session_is_used_by_the_next(archive: ClassArchive) -> None:
    assert not archive.is_there
    kept(archive)
    assert archive.is_there
    assert not archive.own.exists()
    # "on" makes a machine fail that cannot use the archive; and it says no more than without
    assert said("-Xshare:on", *archive.options()) == said() == (0, DIGEST)


def test_other_class_path_has_another_archive(archive: ClassArchive, tmp_path: Path) -> None:
    other = tmp_path / "other.jar"
    other.write_bytes(CODEC.read_bytes())
    assert ClassArchive.of(find_java().program, [str(other)], tmp_path).path != archive.path


def test_broken_archive_is_ignored(archive: ClassArchive) -> None:
    archive.path.write_bytes(b"not an archive" * 1000)
    assert said(*archive.options()) == said()


def test_half_written_archives_are_deleted(archive: ClassArchive, tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    left = tmp_path / f"x.{ended.pid}.new"
    left.touch()
    kept(archive)
    assert not left.exists()
