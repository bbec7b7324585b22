"""A session that is interrupted or killed leaves nothing behind; one that ends, what its Java has loaded."""

import os
import signal
import subprocess
import sys
from ast import literal_eval
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from cdc.local.fetch.cache import CACHE_VARIABLE, cache_folder
from tests.commands import ROOT
from tests.waiting import until

STARTING = """
from pathlib import Path
from cdc.local.fetch.jars import spark_jars
from cdc.run.session import Launch, build
spark = build("interrupted", Launch("local[1]", "1g", [str(jar) for jar in spark_jars()], Path("spark.log")), {})
"""
KILLED = "import os; os.kill(os.getpid(), 9)"


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


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Our downloads, and no classes yet."""
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "jars").symlink_to(cache_folder() / "jars")
    return folder


def ended(cache: Path, also: str) -> tuple[list[str], list[str]]:
    """The options that a session's Java has when it has ended, with these last words, and the archives there are."""
    told = "print(spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments(), flush=True)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), CACHE_VARIABLE: str(cache)}
    command = [sys.executable, "-c", f"{STARTING}{told}\n{also}"]
    done = subprocess.run(command, cwd=cache, env=environment, capture_output=True, text=True, check=False)
    # the list comes as Python would write it
    options = [word for word in literal_eval(done.stdout) if "Archive" in word or "Dump" in word]
    return options, [file.name for file in (cache / "classes").iterdir()]


def test_what_a_session_has_loaded_is_kept(cache: Path) -> None:
    ready = ["-XX:+RecordDynamicDumpInfo"]
    assert ended(cache, KILLED) == (ready, [])
    options, archives = ended(cache, "")
    assert (options, len(archives)) == (ready, 1)
    assert ended(cache, "") == ([f"-XX:SharedArchiveFile={cache / 'classes' / archives[0]}"], archives)
