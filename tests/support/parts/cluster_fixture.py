"""A Spark cluster for tests: a standalone one, started from the same pyspark, whose workers have no toolkit."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import STDOUT
from typing import Any, Final

import httpx
import pytest
from pyspark.java_gateway import launch_gateway

from cdc.https import tls_context
from cdc.local.servers.java import find_java
from tests.support.parts.ports import server_ports
from tests.support.parts.worker_python import make_worker_python
from tests.support.waiting import until

HOST: Final = "127.0.0.1"
CORES, MEBIBYTES = 1, 1024
"""What each worker offers."""


@dataclass(frozen=True)
class Cluster:
    """Its address, and the Python on its workers: the documented packages alone."""

    master: str
    python: Path


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers of one core each, for all tests of `tests/servers/cluster`.

    They share one Java. What they run for an application, the executors and the workers' Python, are processes.
    """
    find_java()
    folder = tmp_path_factory.mktemp("cluster")
    port, web = server_ports(2)
    master, page = f"spark://{HOST}:{port}", f"http://{HOST}:{web}/json/"
    with _java(folder / "log") as gateway, ExitStack() as running:
        jvm = gateway.jvm
        started = jvm.org.apache.spark.deploy.master.Master.startRpcEnvAndEndpoint(
            HOST, port, web, jvm.org.apache.spark.SparkConf()
        )
        running.callback(started._1().shutdown)
        # workers end first: one without its master would end all of this Java
        for number, name in enumerate(("one", "two")):
            running.callback(_start_worker(gateway, master, number, folder / name).shutdown)
        until(lambda: httpx.get(page, verify=tls_context()).json()["aliveworkers"] == 2, "its workers are there")
        yield Cluster(master, make_worker_python(folder / "python"))


def _start_worker(gateway: Any, master: str, number: int, folder: Path) -> Any:
    """Start a worker with a folder of its own; returns what it listens with."""
    jvm = gateway.jvm
    masters, option = gateway.new_array(jvm.java.lang.String, 1), jvm.scala.Option
    masters[0] = master
    offer = (HOST, 0, 0, CORES, MEBIBYTES)
    return jvm.org.apache.spark.deploy.worker.Worker.startRpcEnvAndEndpoint(
        *offer, masters, str(folder), option.apply(number), jvm.org.apache.spark.SparkConf(), option.empty()
    )


@contextmanager
def _java(log: Path) -> Iterator[Any]:
    """A Java with Spark's classes, and with nothing in its environment by which Python would find this checkout."""
    with pytest.MonkeyPatch.context() as patched, log.open("a") as file:
        for name in [each for each in os.environ if each.startswith("PYTHON")]:
            patched.delenv(name)
        patched.setenv("SPARK_LOCAL_IP", HOST)
        told = {"stdout": file, "stderr": STDOUT, "cwd": log.parent}
        gateway = launch_gateway(popen_kwargs=told)  # type: ignore[no-untyped-call]
    try:
        yield gateway
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
