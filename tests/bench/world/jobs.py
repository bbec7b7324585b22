"""Processes that a bench runs: `cdc` as a user runs it, and the stock jobs; watched by the meter, ended for good."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.bench.goal import Failed
from tests.bench.meter.meter import Meter

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 3600.0
LAST_BATCH_SECONDS, CHILDREN_SECONDS = 180.0, 20.0
_RAISED = re.compile(r"^[\w.]*(Error|Exception)\b.*")


def cdc_command(config: Path, *arguments: str) -> list[str]:
    """A verb of this tree's `cdc`."""
    return [sys.executable, "-m", "cdc", "--config", str(config), *arguments]


def stock_command(module: str, settings: Mapping[str, object], folder: Path) -> list[str]:
    """A stock job: a module of tests.bench.stock, told by a file in `folder`, since its settings hold a password."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{module}.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(settings))
    return [sys.executable, "-m", f"tests.bench.stock.{module}", str(file)]


def environment(scratch: Path) -> dict[str, str]:
    """This tree's packages win over installed ones, and what a killed Spark leaves lies in `scratch`."""
    scratch.mkdir(parents=True, exist_ok=True)
    places = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    places["JDK_JAVA_OPTIONS"] = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -Djava.io.tmpdir={scratch}".strip()
    return {**os.environ, **places, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that has ended well: its stdout, and how long it took."""

    stdout: str
    seconds: float

    def json(self) -> Any:
        """The last line of its stdout, as JSON."""
        return json.loads(self.stdout.strip().splitlines()[-1])


def run(meter: Meter, command: Sequence[str], folder: Path, codes: Sequence[int] = (0,)) -> Finished:
    """Run a process to its end in `folder`; Failed with its last words when it ends with another code than `codes`."""
    began = time.monotonic()
    with started(meter, command, folder, "once") as job:
        job.wait(PATIENCE_SECONDS)
        seconds = time.monotonic() - began
    if job.code not in codes:
        raise Failed(f"{job.name} ended with {job.code}: {telling_line(job.said)}")
    return Finished(job.stdout.read_text(), seconds)


@dataclass(frozen=True, slots=True)
class Job:
    """A process beside the bench, with all that it starts."""

    process: "psutil.Popen"
    command: Sequence[str]
    began: float
    """By the wall clock."""
    stdout: Path
    stderr: Path

    @property
    def name(self) -> str:
        """What was run, without paths and settings."""
        return " ".join([word for word in self.command[1:] if not word.startswith(("/", "{", "-"))][:4])

    @property
    def said(self) -> str:
        return self.stderr.read_text(errors="replace")

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        code: int | None = self.process.poll()
        return code

    def check(self) -> bool:
        """False, for use in conditions; Failed when the process has ended, since nothing more will come of it."""
        if self.code is not None:
            raise Failed(f"{self.name} ended with {self.code}: {telling_line(self.said)}")
        return False

    def wait(self, seconds: float) -> None:
        """Return when it has ended; kill it and fail when it has not in time."""
        try:
            self.process.wait(seconds)
        except psutil.TimeoutExpired:
            self._kill(self._family())
            raise Failed(f"{self.name} has not ended in {seconds:.0f} s") from None

    def end(self) -> None:
        """Ask it to end after the batch at hand; what is left after a while is killed."""
        family = self._family()
        if self.code is None:
            # not SIGINT: what a shell started in the background ignores it, and so do its children
            self.process.send_signal(signal.SIGTERM)
            with suppress(psutil.TimeoutExpired):
                self.process.wait(LAST_BATCH_SECONDS)
        self._kill([each for each in psutil.wait_procs(family, timeout=CHILDREN_SECONDS)[1] if each.is_running()])

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Its processes stand still as long as the context lasts."""
        still: set[psutil.Process] = set()
        try:
            # what was started while the others were being stopped is found in the next round
            while moving := [each for each in self._family() if each not in still]:
                for each in moving:
                    still.add(each)
                    with suppress(psutil.NoSuchProcess):
                        each.suspend()
            yield
        finally:
            for each in still:
                with suppress(psutil.NoSuchProcess):
                    each.resume()

    def _family(self) -> list[psutil.Process]:
        try:
            return [psutil.Process(self.process.pid), *self.process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    @staticmethod
    def _kill(family: Sequence[psutil.Process]) -> None:
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(family, timeout=20)


def telling_line(said: str) -> str:
    """The line of what a process said that tells most: the last exception's, else the last of all."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    return (raised or lines or ["it said nothing"])[-1]


@contextmanager
def started(meter: Meter, command: Sequence[str], folder: Path, name: str) -> Iterator[Job]:
    """Run a process beside the bench in `folder`, its output kept there; it ends with the context."""
    folder.mkdir(parents=True, exist_ok=True)
    stdout, stderr = folder / f"{name}.out", folder / f"{name}.err"
    with stdout.open("w") as out, stderr.open("w") as err:
        process = psutil.Popen(
            list(command), env=environment(folder / "tmp"), cwd=folder, stdout=out, stderr=err, stdin=subprocess.DEVNULL
        )
    meter.watch(process.pid)
    job = Job(process, command, time.time(), stdout, stderr)
    try:
        yield job
    finally:
        job.end()
        meter.leave(process.pid)
