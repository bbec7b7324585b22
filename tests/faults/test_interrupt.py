"""An interrupted or killed session leaves nothing behind; one that ends, the archive of its Java's classes."""

import os
import signal
import subprocess
import sys
import textwrap
from ast import literal_eval
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from cdc.local.fetch.cache import CACHE_VARIABLE, cache_folder
from tests.support.cdc_inprocess import bootstrap, catch_up, verify
from tests.support.cdc_subprocess import ROOT, started
from tests.support.further import further
from tests.support.parts.pipelines import MakePipeline
from tests.support.waiting import until

STARTING = """
from pathlib import Path
from cdc.local.fetch.jars import spark_jars
from cdc.run.scratch import open_scratch
from cdc.run.spark.session import SessionOptions, build
jars, scratch = [str(jar) for jar in spark_jars()], open_scratch(Path("."))
launch = SessionOptions("local[1]", "1g", jars, Path("spark.log"), scratch=scratch)
spark = build("interrupted", launch, {})
"""
KILLED = "import os; os.kill(os.getpid(), 9)"
NEXT = """
from pathlib import Path
from cdc.run.scratch import open_scratch
open_scratch(Path("."))
"""
"""What every process does before it starts Spark."""


def is_spark(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any("SparkSubmit" in word for word in process.cmdline())
    return False


def is_spark_in(folder: Path) -> Callable[[psutil.Process], bool]:
    """Says whether a process is a Java that uses the scratch below a folder, whoever its parent is by now."""

    def answer(process: psutil.Process) -> bool:
        with suppress(psutil.NoSuchProcess):
            return is_spark(process) and str(folder) in " ".join(process.cmdline())
        return False

    return answer


def spark_of(starting: psutil.Popen) -> list[psutil.Process]:
    return [child for child in starting.children(recursive=True) if is_spark(child)] if starting.is_running() else []


VERB = f"""
import sys
from cdc.cli.app import run
def register(app):
    def start():
{textwrap.indent(STARTING, " " * 8)}
        print("it is up", flush=True)
    app.command("start")(start)
    app.command("other")(lambda: None)
sys.exit(run(["start"], [register]))
"""


@pytest.mark.parametrize(
    ("number", "made", "seconds"),
    [
        pytest.param(signal.SIGTERM, "*", 0, id="SIGTERM while its Java starts"),
        pytest.param(signal.SIGINT, "blockmgr-*", 0, id="SIGINT while its context starts"),
        further("SIGINT after its Java started", signal.SIGINT, "*", 1),
        further("SIGTERM while its context starts", signal.SIGTERM, "blockmgr-*", 0.5),
        further("SIGINT once it is up", signal.SIGINT, "blockmgr-*", 2),
    ],
)
def test_interrupt_during_start_of_spark_prints_one_word(
    tmp_path: Path, number: signal.Signals, made: str, seconds: float
) -> None:
    """Signals some moments after its Java is there, or after that has made its first folder; further ones later."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with (tmp_path / "said").open("w") as said:
        command = [sys.executable, "-c", VERB]
        starting = psutil.Popen(command, cwd=tmp_path, env=environment, stderr=said, stdout=said)
    until(lambda: bool(spark_of(starting)) or starting.poll() is not None, "Spark's Java is there", every=0.01)
    assert spark_of(starting), (tmp_path / "said").read_text()
    until(
        lambda: any((tmp_path / "tmp").glob(f"*/{made}")) or starting.poll() is not None, f"{made} is there", every=0.01
    )
    family = starting.children(recursive=True)
    with suppress(psutil.TimeoutExpired):
        starting.wait(seconds)
    starting.send_signal(number)
    ended = starting.wait(60)
    gone, left = psutil.wait_procs(family, timeout=60)
    for each in left:
        each.kill()
    assert gone
    assert not left
    words = [line for line in (tmp_path / "said").read_text().splitlines() if not line.startswith(("NOTE", "WARNING"))]
    # one that was up before the signal came is no worse
    assert words in (["interrupted"], ["it is up", "interrupted"], ["it is up"])
    assert ended == (0 if words == ["it is up"] else 130)
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == [".lock"]


def test_next_process_deletes_files_of_a_killed_one(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "system")}
    (tmp_path / "system").mkdir()
    used = "spark.range(10).repartition(2).count()\n"
    command = [sys.executable, "-c", f"{STARTING}{used}{KILLED}"]
    done = psutil.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    assert done.wait(180) == -signal.SIGKILL
    until(lambda: not any(map(is_spark_in(tmp_path), psutil.process_iter())), "its Java has ended, too")
    [left] = [path for path in (tmp_path / "tmp").iterdir() if path.is_dir()]
    assert any(left.iterdir())
    subprocess.run([sys.executable, "-c", NEXT], cwd=tmp_path, env=environment, check=True)
    assert not left.exists()
    assert list((tmp_path / "system").iterdir()) == []


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Our downloads, and no classes yet."""
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "jars").symlink_to(cache_folder() / "jars")
    return folder


def run_session(cache: Path) -> tuple[list[str], list[str]]:
    """The options that a session's Java has when it has ended, and the archives there are."""
    told = "print(spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments(), flush=True)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), CACHE_VARIABLE: str(cache)}
    command = [sys.executable, "-c", f"{STARTING}{told}\n"]
    done = subprocess.run(command, cwd=cache, env=environment, capture_output=True, text=True, check=False)
    # the list comes as Python would write it
    options = [word for word in literal_eval(done.stdout) if "Archive" in word or "Dump" in word]
    return options, [file.name for file in (cache / "classes").iterdir()]


def test_loaded_classes_are_archived(cache: Path) -> None:
    ready = ["-XX:+RecordDynamicDumpInfo"]
    options, archives = run_session(cache)
    assert (options, len(archives)) == (ready, 1)
    assert run_session(cache) == ([f"-XX:SharedArchiveFile={cache / 'classes' / archives[0]}"], archives)


def test_killed_java_ends_follow_with_one_line(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline("CREATE TABLE things (id int PRIMARY KEY)", tables=("public.things",), lake_only=True)
    bootstrap(pipeline, spark)
    before = set(pipeline.config.parent.iterdir())
    with started(pipeline, "follow") as running:
        running.wait_for("following: ")
        pipeline.run("INSERT INTO things VALUES (1)")
        running.wait_for("lake: 1 change")
        [java] = spark_of(running.process)
        java.kill()
        until(lambda: running.ended is not None, "it ends")
    assert running.ended == 3
    log = Path(pipeline.settings.pipeline.state) / "logs" / "spark.log"
    told = f"error: Spark's Java ended by signal 9 (see {log}) → start the same again"
    assert running.said.splitlines()[-1].endswith(f"Z ERROR   {told}")
    assert [line for line in running.said.splitlines() if "py4j" in line.lower() or "Traceback" in line] == []
    assert running.said.count("Java ended") == 1
    # nothing stays in the system's folder, nor in ours
    state = Path(pipeline.settings.pipeline.state)
    assert set(pipeline.config.parent.iterdir()) - before <= {state, pipeline.config.parent / "follow.said"}
    assert [path.name for path in (state / "tmp").iterdir()] == [".lock"]
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
