"""`follow` as cells drive it: in a thread of the runner, or as a process that can be killed."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

from cdc.core import fail_points
from cdc.core.errors import CdcError
from cdc.local.running.processes import wait_for_exit
from tests.cells.cell import Cell
from tests.cells.world import FOLLOWERS, World
from tests.support.cdc_inprocess import Following
from tests.support.cdc_subprocess import environment
from tests.support.parts.pipelines import take_opened
from tests.support.waiting import until

START_SECONDS: Final = 120.0
STALL_SECONDS: Final = 2.0
UNTRANSLATED: Final = "UNTRANSLATED"
"""Before what a user would see as a bug."""


def arming(cell: Cell) -> str:
    """The cell's fail point with its action, as CDC_FAIL_POINTS has it."""
    return f"{cell.component}:{f'stall={STALL_SECONDS}' if cell.kind == 'stall' else cell.kind}"


class Thread:
    """In a thread of this process."""

    def __init__(self, world: World, armed: str = "") -> None:
        fail_points.arm(armed)
        self._following = Following(world.pipeline, world.spark, FOLLOWERS)
        self._opened = take_opened()
        self._following.start()

    @property
    def is_running(self) -> bool:
        return self._following.is_running

    @property
    def end(self) -> str:
        failure = self._following.failure
        if failure is None:
            return ""
        return str(failure) if isinstance(failure, CdcError) else f"{UNTRANSLATED} {failure!r}"

    @property
    def lines(self) -> list[str]:
        return self._following.said

    def arm(self, text: str) -> None:
        fail_points.arm(text)

    def stop(self) -> None:
        fail_points.arm("")
        self._following.end()
        self._opened.close()

    def await_start(self) -> None:
        """Return when its streams run, or it has ended."""
        said = self._following.said
        until(lambda: any("following:" in line for line in said) or not self.is_running, "it follows", START_SECONDS)


class Process:
    """As a process of its own: `follow`, or another verb."""

    def __init__(self, world: World, verb: Sequence[str] = ("follow",), armed: str = "") -> None:
        self._said = world.pipeline.config.parent / f"{verb[0]}.said"
        words = [sys.executable, "-m", "tests.cells.child", "--config", str(world.pipeline.config), *verb]
        root = Path(__file__).parents[2]
        environ = {**environment(world.pipeline), **({fail_points.VARIABLE: armed} if armed else {})}
        with self._said.open("w") as file:
            self.process = psutil.Popen(
                words, env=environ, cwd=root, stdin=subprocess.PIPE, stdout=file, stderr=file, text=True
            )

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def said(self) -> str:
        return self._said.read_text()

    @property
    def lines(self) -> list[str]:
        return self.said.splitlines()

    @property
    def end(self) -> str:
        if self.is_running:
            return ""
        errors = [line for line in self.said.splitlines() if "error: " in line]
        if errors:
            return errors[-1]
        code = self.process.returncode
        return f"ended by signal {-code}" if code < 0 else f"{UNTRANSLATED} exit code {code}: {self.said[-300:]}"

    def arm(self, text: str) -> None:
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def await_start(self) -> None:
        until(lambda: "following:" in self.said or not self.is_running, "it follows", START_SECONDS)

    def kill(self) -> None:
        """SIGKILL to the process alone, as the kernel would; its Java ends by itself, or is ended."""
        family = [self.process, *self.process.children(recursive=True)] if self.is_running else []
        if family:
            self.process.kill()
        self.process.wait()
        for survivor in wait_for_exit(10, family[1:]):
            survivor.kill()

    def stop(self) -> None:
        self.kill()
