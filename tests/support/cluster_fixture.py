"""A Spark cluster for tests: a standalone one, started from the same pyspark, whose workers have no toolkit."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pyspark
import pytest

from cdc.local.servers.java import find_java
from tests.support.ports import free_ports
from tests.support.waiting import until
from tests.support.worker_python import make_worker_python

HOME = Path(pyspark.__file__).parent
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"


@dataclass(frozen=True)
class Cluster:
    """Its address, and the Python on its workers: the documented packages alone."""

    master: str
    python: Path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A master and two workers of one core each."""
    find_java()
    here = ("--host", "127.0.0.1")
    port, web = free_ports(2)
    master = f"spark://127.0.0.1:{port}"
    page = f"http://127.0.0.1:{web}/json/"
    processes = [_spark(tmp_path, MASTER, *here, "--port", str(port), "--webui-port", str(web))]
    try:
        until(lambda: _answers(page), "the master answers")
        for name in ("one", "two"):
            small = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(tmp_path / name))
            processes.append(_spark(tmp_path, WORKER, *here, *small, master))
        until(lambda: httpx.get(page).json()["aliveworkers"] == 2, "its workers are there")
        yield Cluster(master, make_worker_python(tmp_path / "python"))
    finally:
        for process in reversed(processes):
            _end(process)


def _spark(folder: Path, *arguments: str) -> psutil.Popen:
    # nothing by which Python would find this checkout
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / f"{arguments[0].rsplit('.', 1)[-1]}.log").open("a") as log:
        return psutil.Popen(
            [str(HOME / "bin" / "spark-class"), *arguments],
            env=environment,
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _answers(page: str) -> bool:
    try:
        return httpx.get(page).is_success
    except httpx.TransportError:
        return False


def _end(process: psutil.Popen) -> None:
    for each in (*process.children(recursive=True), process):
        each.terminate()
    process.wait(60)
