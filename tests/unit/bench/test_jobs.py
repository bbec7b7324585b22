"""Processes beside the bench: made to stand still, ended, and what they said when they failed."""

import sys
from pathlib import Path

import psutil
import pytest

from tests.bench.goal import Failed
from tests.bench.meter.meter import Meter
from tests.bench.world.jobs import run, started, telling_line
from tests.support.waiting import until

CHILD = "import time; print('up', flush=True); time.sleep(600)"
WITH_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"
STOPPED = {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}


def test_the_telling_line_is_the_last_exception_or_the_last_line() -> None:
    assert telling_line("Traceback\n  at x\nValueError: no\nbye\n") == "ValueError: no"
    assert telling_line("cdc follow: no copy\n\n") == "cdc follow: no copy"
    assert telling_line("") == "it said nothing"


def test_a_failed_process_is_told_by_its_last_words(tmp_path: Path) -> None:
    with Meter() as meter, pytest.raises(Failed, match="ended with 1: ZeroDivisionError"):
        run(meter, [sys.executable, "-c", "1 / 0"], tmp_path)


def test_a_paused_job_stands_still_with_its_children_and_ends_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # nobody has told the child to end
    monkeypatch.setattr("tests.bench.world.jobs.CHILDREN_SECONDS", 0.1)
    with Meter() as meter:
        with started(meter, [sys.executable, "-c", WITH_A_CHILD], tmp_path, "job") as job:
            # not a moment sooner: a parent waits unstoppably (vfork) until its child runs its own program
            until(lambda: job.check() or job.stdout.read_text() == "up\n", "its child runs")
            children = job.process.children()
            with job.paused():
                # a signal takes its time to arrive
                until(lambda: {each.status() for each in (job.process, *children)} <= STOPPED, "they stand still")
            assert children[0].status() not in STOPPED
        assert not children[0].is_running()
