"""Processes of parts: whether one runs is known while it ends, too."""

import subprocess
import sys

import psutil
import pytest

from cdc.local.running.processes import is_alive


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(psutil.NoSuchProcess(1), id="it is gone"),
        pytest.param(psutil.TimeoutExpired(0), id="nobody has waited for it"),
        pytest.param(FileNotFoundError(2, "No such file or directory"), id="it is going, to Linux 6.18"),
    ],
)
def test_one_that_ends_while_it_is_looked_at_does_not_run(monkeypatch: pytest.MonkeyPatch, said: Exception) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        process = psutil.Process(child.pid)
        child.wait()

        def wait(timeout: float) -> None:
            raise said

        monkeypatch.setattr(process, "wait", wait)
        assert not is_alive(process)


def test_one_that_waits_runs() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert is_alive(psutil.Process(child.pid))
        child.kill()
