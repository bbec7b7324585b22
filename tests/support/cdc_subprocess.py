"""`cdc` as a process of its own, as a user runs it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from cdc.core.fail_points import VARIABLE
from cdc.local.running.processes import wait_for_exit
from tests.support.parts.pipelines import Pipeline
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 600


def command(pipeline: Pipeline, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "cdc", "--config", str(pipeline.config), *arguments]


def environment(pipeline: Pipeline) -> dict[str, str]:
    # whoever is killed leaves what it had there
    scratch = {"TMPDIR": str(pipeline.config.parent)}
    return {**os.environ, **pipeline.environ, "PYTHONPATH": str(ROOT), **scratch}


def cdc(pipeline: Pipeline, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a verb to its end."""
    return _run(pipeline, command(pipeline, *arguments))


def _run(pipeline: Pipeline, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        env=environment(pipeline),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )


IN_TURN = """import json, sys
from cdc.__main__ import main
sys.exit(next((code for verb in json.loads(sys.argv[1]) if (code := main(verb))), 0))
"""


def cdc_in_turn(pipeline: Pipeline, *verbs: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run verbs one after the other in one process, with one Spark, until the first that fails."""
    lines = [["--config", str(pipeline.config), *verb] for verb in verbs]
    return _run(pipeline, [sys.executable, "-c", IN_TURN, json.dumps(lines)])


@contextmanager
def started(pipeline: Pipeline, *arguments: str, fail_points: str = "") -> Iterator["Running"]:
    """Run a verb beside the test; it is killed at the end, with all that it started.

    `fail_points`: those that are armed, as CDC_FAIL_POINTS has them.
    """
    said = pipeline.config.parent / f"{arguments[0]}.said"
    environ = {**environment(pipeline), VARIABLE: fail_points}
    with said.open("w") as file:
        process = psutil.Popen(command(pipeline, *arguments), env=environ, stdout=file, stderr=file)
    running = Running(process, said)
    try:
        yield running
    finally:
        running.kill()


class Running:
    """A `cdc` that runs beside the test."""

    def __init__(self, process: psutil.Popen, said: Path) -> None:
        self.process = process
        self._said = said

    @property
    def said(self) -> str:
        return self._said.read_text()

    @property
    def ended(self) -> int | None:
        """The exit code, None while it runs."""
        code: int | None = self.process.poll()
        return code

    def join(self) -> int | None:
        """Return its exit code when it ends by itself."""
        until(lambda: self.ended is not None, "it ends", LIMIT_SECONDS)
        return self.ended

    def wait_for(self, text: str) -> None:
        """Return when it has said so; fail when it ends before."""
        self.wait_until(lambda: text in self.said, f"it says {text!r}")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Return when the condition holds; fail when it ends before."""
        until(lambda: condition() or self.ended is not None, what, LIMIT_SECONDS)
        assert condition(), self.said

    def kill(self) -> None:
        """SIGKILL, as the machine's owner or the kernel would; what it had started ends too."""
        children = self.process.children(recursive=True) if self.process.is_running() else []
        if self.process.is_running():
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for child in wait_for_exit(60, children):
            child.kill()
