"""Sees every new version of a Delta table as soon as a reader could, by asking for the next file of its log."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.world.watching import Watching, repeated

LOOK_SECONDS = 0.004
_VERSION = re.compile(r"^(\d{20})\.(json|checkpoint.*)$")

Actions = list[Mapping[str, Any]]
OnVersion = Callable[[Path, float, Actions], None]
"""Is called with the table's folder, the time at which a version was seen, and its actions."""


def newest(folder: Path) -> int:
    """The newest version in a table's log, -1 before the first."""
    names = [file.name for file in (folder / "_delta_log").glob("*")]
    return max((int(found[1]) for name in names if (found := _VERSION.match(name))), default=-1)


def actions(folder: Path, version: int) -> Actions:
    """The actions of one version."""
    return [json.loads(line) for line in _file(folder, version).read_text().splitlines() if line]


def added(found: Actions) -> list[Mapping[str, Any]]:
    """The files that a version brings new rows in; one that only moves rows (OPTIMIZE) brings none."""
    return [action["add"] for action in found if "add" in action and action["add"].get("dataChange", True)]


@contextmanager
def watched(folders: Sequence[Path], on_version: OnVersion, seconds: float = LOOK_SECONDS) -> Iterator[Watching]:
    """Tell of every version of these tables from now on, in a thread that looks so often, until the context ends."""
    following = {folder: newest(folder) + 1 for folder in folders}

    def look() -> None:
        for folder in folders:
            while _file(folder, following[folder]).exists():
                on_version(folder, time.time(), actions(folder, following[folder]))
                following[folder] += 1

    with repeated(look, seconds) as watching:
        yield watching


def _file(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020}.json"
