"""`cdc` as a process of its own, as a user runs it: `cdc follow` for long, other verbs to their end."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from cdc.core.waiting import wait_until

ROOT: Final = Path(__file__).parents[2]
ENDING_SECONDS: Final = 60.0
LIMIT_SECONDS: Final = 600.0
_ERROR: Final = "error: "


def command(config: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "cdc", "--config", str(config), *words]


def environment(folder: Path) -> dict[str, str]:
    """What a verb is started with; `folder` takes the files that a killed one leaves."""
    # this project may be a folder that is not installed
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder), "NO_COLOR": "1"}


@dataclass(frozen=True, slots=True)
class Said:
    """What a verb has answered."""

    code: int
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """The last line with an error, or what was said last."""
        return find_error(self.stderr)


def find_error(text: str) -> str:
    """The last error that a verb has told, or its last line."""
    lines = text.splitlines()
    found = next((line for line in reversed(lines) if _ERROR in line), lines[-1] if lines else "")
    return found.partition(_ERROR)[2] or found


def run_verb(config: Path, *words: str) -> Said:
    """Run a verb to its end."""
    try:
        done = subprocess.run(  # noqa: S603
            command(config, *words),
            env=environment(config.parent),
            cwd=config.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return Said(4, "", f"error: cdc {words[0]} has not ended within {LIMIT_SECONDS:.0f} s")
    return Said(done.returncode, done.stdout, done.stderr)


class FollowProcess:
    """`cdc follow`, with everything that it has started."""

    def __init__(self, config: Path, environment: Mapping[str, str]) -> None:
        self._config, self._environment = config, environment
        self._said = config.parent / "follow.said"
        self._offset = 0
        self._process: psutil.Popen | None = None

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.is_running:
            return
        self._offset = self._said.stat().st_size if self._said.exists() else 0
        with self._said.open("ab") as file:
            self._process = psutil.Popen(
                command(self._config, "follow"),
                env={**environment(self._config.parent), **self._environment},
                cwd=self._config.parent,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def code(self) -> int | None:
        """The exit code of one that has ended."""
        return None if self._process is None else self._process.poll()

    @property
    def said(self) -> str:
        """What it has said since it was started last."""
        with self._said.open("rb") as file:
            file.seek(self._offset)
            return file.read().decode(errors="replace")

    @property
    def error(self) -> str:
        """The last error that it has told since then."""
        return find_error(self.said)

    @property
    def family(self) -> list[psutil.Process]:
        """Itself and all that it has started, the youngest first."""
        if self._process is None or not self.is_running:
            return []
        with suppress(psutil.NoSuchProcess):
            return [*reversed(self._process.children(recursive=True)), self._process]
        return []

    def stop(self) -> None:
        """End it as a service manager does: asked first, by force after a while."""
        if self._process and self.is_running:
            self._process.send_signal(signal.SIGTERM)
            wait_until(lambda: not self.is_running, ENDING_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End it, and all that it has started, at once."""
        signal_all(self.family, signal.SIGKILL)
        if self._process:
            self._process.wait()


def signal_all(processes: list[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to processes, of which some may have ended."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
