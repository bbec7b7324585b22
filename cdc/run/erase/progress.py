"""How far an erasure is: a file of the state folder that has neither the key nor a value in the clear."""

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cdc.core.errors import PreconditionError

FOLDER = "erasures"


class ErasureProgress:
    """The steps that are done, and what the others need: kept until the erasure is reported.

    `facts`: JSON values by name. Each write replaces the file in one step.
    """

    def __init__(self, state: Path, name: str) -> None:
        self._path = state / FOLDER / f"{name}.progress.json"
        known = _read(self._path)
        self.done: dict[str, str] = known.get("done", {})
        self.facts: dict[str, Any] = known.get("facts", {})

    @property
    def has_begun(self) -> bool:
        return bool(self.facts)

    def note(self, **facts: Any) -> None:
        """Keep facts before what depends on them is done."""
        self.facts |= facts
        self._write()

    def finish(self, step: str) -> None:
        self.done[step] = datetime.now(UTC).isoformat(timespec="seconds")
        self._write()

    def remove(self) -> None:
        """It is reported: nothing is left to go on with."""
        self._path.unlink(missing_ok=True)
        self.done, self.facts = {}, {}

    def _write(self) -> None:
        write_private(self._path, json.dumps({"done": self.done, "facts": self.facts}).encode())


def read_others(state: Path, name: str) -> Iterator[Mapping[str, Any]]:
    """The facts of other erasures that were begun and are not done."""
    for path in sorted((state / FOLDER).glob("*.progress.json")):
        if path.name != f"{name}.progress.json":
            yield _read(path).get("facts", {})


def write_private(path: Path, content: bytes) -> None:
    """Write a file for its owner alone, in one step. Raises PreconditionError when it cannot be kept."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise PreconditionError(
            f"{path} cannot be written: {error.strerror}", "free space, or correct its rights"
        ) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise PreconditionError(f"{path} cannot be read: {error}", "remove it: the erasure begins anew") from None
    return dict(known)
