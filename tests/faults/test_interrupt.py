"""Ctrl-C while Spark starts leaves nothing behind."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from tests.commands import ROOT
from tests.waiting import until

STARTING = """
from pathlib import Path
from cdc.local.fetch.jars import spark_jars
from cdc.run.session import Launch, build
build("interrupted", Launch("local[1]", "1g", [str(jar) for jar in spark_jars()], Path("spark.log")), {})
"""


def is_spark(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any("SparkSubmit" in word for word in process.cmdline())
    return False


def spark_of(starting: psutil.Popen) -> list[psutil.Process]:
    return [child for child in starting.children(recursive=True) if is_spark(child)] if starting.is_running() else []


def test_no_java_stays(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (tmp_path / "said").open("w") as said:
        starting = psutil.Popen([sys.executable, "-c", STARTING], cwd=tmp_path, env=environment, stderr=said)
    until(lambda: bool(spark_of(starting)) or starting.poll() is not None, "Spark's Java is there")
    assert spark_of(starting), (tmp_path / "said").read_text()
    family = starting.children(recursive=True)
    starting.send_signal(signal.SIGINT)
    assert starting.wait(60) != 0
    gone, left = psutil.wait_procs(family, timeout=60)
    for each in left:
        each.kill()
    assert gone
    assert not left
