"""`cdc follow` starts its Spark beside its imports; of one that is refused, nothing is left."""

import os
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from pyspark.sql import SparkSession

from cdc.config.file import read
from cdc.core.errors import PreconditionError, RefusedError
from cdc.run.pipeline import Pipeline
from cdc.run.spark.early_start import EarlyStart, HeldLines
from tests.support.cdc_subprocess import LIMIT_SECONDS, ROOT

PASSWORD = {"CDC_SOURCE_PASSWORD": "unused"}
SESSION = cast(Any, "the session")


def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cdc", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **PASSWORD},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )


def list_left(folder: Path) -> list[psutil.Process]:
    """Every process of a start of Java has a file in the pipeline's scratch folder among its arguments."""
    return [each for each in psutil.process_iter() if any(str(folder) in word for word in _words(each))]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_caller_goes_on_while_it_starts() -> None:
    goes_on, has_said, said = threading.Event(), threading.Event(), list[str]()
    lines = HeldLines(said.append)

    def build() -> SparkSession:
        lines("starting")
        has_said.set()
        assert goes_on.wait(LIMIT_SECONDS)
        lines("started")
        return cast(SparkSession, SESSION)

    with closing(EarlyStart(build, lines)) as start:
        assert has_said.wait(LIMIT_SECONDS)
        assert said == []
        goes_on.set()
        assert start() is SESSION
    assert said == ["starting", "started"]


def test_failure_is_raised_where_the_session_is_asked_for() -> None:
    def build() -> SparkSession:
        raise PreconditionError("Spark does not start")

    with (
        closing(EarlyStart(build, HeldLines(print))) as start,
        pytest.raises(PreconditionError, match="does not start"),
    ):
        start()
    with closing(EarlyStart(build, HeldLines(print))):
        """Nobody asks: what is told is why the verb is refused."""


def check_nothing_is_left(folder: Path) -> None:
    assert not list_left(folder)
    assert [path.name for path in (folder / ".cdc" / "tmp").iterdir()] == [".lock"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration of servers that are not there."""
    ended = run(tmp_path, "init")
    assert not ended.returncode, ended.stderr
    return tmp_path


def test_unknown_follower_is_told(folder: Path) -> None:
    ended = run(folder, "follow", "--follower", "nobody")
    assert "error: there is no follower nobody" in ended.stderr.splitlines()[-1], ended.stderr
    check_nothing_is_left(folder)


def test_follower_of_another_process_is_told(folder: Path) -> None:
    settings = read(folder / "cdc.yaml", PASSWORD).settings
    with Pipeline(settings).leases.hold("lake"):
        ended = run(folder, "follow", "--follower", "lake")
    assert ended.returncode == RefusedError("").exit_code, ended.stderr
    check_nothing_is_left(folder)
