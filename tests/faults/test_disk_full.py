"""A lake on a disk that fills up: one line, nothing half done, and it goes on once there is room."""

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc.__main__ import main
from tests.support.cdc_inprocess import catch_up, verify
from tests.support.parts.pipelines import MakePipeline
from tests.support.workload import ITEMS, ORDERS, SCHEMA, Workload

pytestmark = pytest.mark.timeout(1200)
ROOM = 20_000_000
"""Bytes: enough for the copies, and some batches."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own of ROOM bytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk can only be mounted by root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Take what room there is."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1024))
    return ballast


def test_lake_on_a_full_disk(
    make_pipeline: MakePipeline,
    spark: SparkSession,
    disk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS))
    pipeline.configure("path: lake", f"path: {disk}/lake")
    for name, value in pipeline.environ.items():
        monkeypatch.setenv(name, value)
    work = Workload(pipeline.connection, random.Random(5))
    for verb in (["bootstrap"], ["follow", "--until-caught-up"]):
        ballast = fill(disk)
        assert main(["--config", str(pipeline.config), *verb]) == 3
        said = capsys.readouterr().err
        errors = [line for line in said.splitlines() if line.startswith("error: ") or "Z ERROR   error: " in line]
        assert len(errors) == 1, said
        assert "disk is full" in errors[0]
        assert "Traceback" not in said
        ballast.unlink()
        assert main(["--config", str(pipeline.config), *verb]) == 0, capsys.readouterr().err
        work.write(40)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
