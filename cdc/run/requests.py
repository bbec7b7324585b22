"""Requests to pause a follower, to start it again, or to hand it over: files that verbs write, and that a running
`cdc follow` keeps.

A pause is a file, so it outlasts every process: a `cdc follow` that starts later keeps it, too. What is handed over
comes back by itself when the process that has asked for it ends.
"""

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cdc.config.settings import CAPTURE
from cdc.core.errors import PausedError, PreconditionError


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests to one pipeline on this machine, as files of a folder."""

    folder: Path

    def pause(self, name: str, by: str) -> None:
        """Note that a follower is to pause; the first note stands. Raises PreconditionError when it cannot be kept."""
        if self.is_paused(name):
            return
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._write(self._pause_path(name), json.dumps({"since": since, "by": by}))

    def resume(self, name: str) -> bool:
        """Take the pause back; returns whether there was one."""
        was = self.is_paused(name)
        self._pause_path(name).unlink(missing_ok=True)
        return was

    def list_paused(self) -> list[str]:
        """The followers that are paused, and the CAPTURE if it is."""
        return sorted(path.stem for path in self.folder.glob("*.pause"))

    def is_paused(self, name: str) -> bool:
        return self._pause_path(name).exists()

    def read_pause(self, name: str) -> PausedError | None:
        """The pause of a follower, or of the CAPTURE, as a line with its remedy; None without one."""
        try:
            noted = json.loads(self._pause_path(name).read_text())
            since, by = datetime.fromisoformat(noted["since"]), str(noted["by"])
        except FileNotFoundError:
            return None
        # damaged: the request stands all the same
        except (OSError, ValueError, KeyError, TypeError):
            return _describe(name, "")
        return _describe(name, f" since {since:%Y-%m-%d %H:%M:%S} UTC, by {by}")

    def note_teardown(self) -> None:
        """Note that a teardown has begun, until one is whole, or a bootstrap makes its things again."""
        self._write(self._teardown_path, "")

    def forget_teardown(self) -> None:
        self._teardown_path.unlink(missing_ok=True)

    def find_half_teardown(self) -> PreconditionError | None:
        """The teardown that has begun and has not ended, as a line with its remedy; None without one."""
        if not self._teardown_path.exists():
            return None
        return PreconditionError("a teardown is half done", "`cdc teardown` finishes it")

    @property
    def _teardown_path(self) -> Path:
        return self.folder / "teardown"

    def restart(self, name: str) -> None:
        """Ask a running stream to end after its batch, and to start anew. Raises PreconditionError like `pause`."""
        self._write(self._restart_path(name), "")

    def wants_restart(self, name: str) -> bool:
        return self._restart_path(name).exists()

    def take_restart(self, name: str) -> None:
        """The stream starts anew: the request is kept."""
        self._restart_path(name).unlink(missing_ok=True)

    def hand_over(self, name: str) -> None:
        """Ask a running stream to rest after its batch, as long as this process holds the lease of its rebuild."""
        self._write(self._handover_path(name), "")

    def wants_handover(self, name: str) -> bool:
        return self._handover_path(name).exists()

    def take_back(self, name: str) -> None:
        """The stream may go on."""
        self._handover_path(name).unlink(missing_ok=True)

    def ends_stream(self, name: str) -> bool:
        """Is the stream to end after its present batch: for a pause, for another process, or to start anew?"""
        return self.is_paused(name) or self.wants_restart(name) or self.wants_handover(name)

    def _write(self, path: Path, text: str) -> None:
        # in one step: a reader sees no half of it
        fresh = path.with_suffix(f".{os.getpid()}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(text)
            fresh.replace(path)
        except OSError as error:
            raise PreconditionError(
                f"the request cannot be written to {path}: {error.strerror}", "free space, or correct its rights"
            ) from None

    def _pause_path(self, name: str) -> Path:
        return self.folder / f"{name}.pause"

    def _handover_path(self, name: str) -> Path:
        return self.folder / f"{name}.handover"

    def _restart_path(self, name: str) -> Path:
        return self.folder / f"{name}.restart"


def _describe(name: str, noted: str) -> PausedError:
    what = "the capture" if name == CAPTURE else f"follower {name}"
    return PausedError(f"{what} is paused{noted}", f"`cdc resume {name}` lets it go on")
