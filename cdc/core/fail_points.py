"""Fail points: named places between two steps whose order matters, at which this process can be made to fail.

`CDC_FAIL_POINTS=lake.cut.after:kill@2,search.refreshed:stall=5` switches them on for a verb of the command line: at the
second passage of the one its process is killed, at the first of the other its thread waits five seconds. `raise` raises
what a disk or a network does. Each happens once. For tests, and for those who rehearse a failure; off, a point is one
look at an empty dictionary. (The idea is FreeBSD's `fail(9)`; TiKV has it as `fail-rs`.)
"""

import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from time import sleep
from typing import Final, Literal, get_args

from cdc.core.errors import ConfigurationError

VARIABLE: Final = "CDC_FAIL_POINTS"
FailPoint = Literal[
    # what a pipeline has on the parts, in the order of a bootstrap
    "registration.written",
    "publication.made",
    "triggers.made",
    "topics.made",
    "slot.made",
    "connector.stopped",
    "offsets.deleted",
    "connector.forgotten",
    "connector.put",
    "connector.resumed",
    "capture.seen",
    # a copy, and what is filled from it
    "copy.begun",
    "copy.written",
    "copy.loaded",
    "bootstrap.copied",
    "bootstrap.cut",
    "bootstrap.views",
    "fill.prepared",
    "fill.loaded",
    "fill.whole",
    # a table joins or is copied again beside the streams
    "resync.published",
    "resync.copied",
    "join.replayed",
    "join.ended",
    "stop.stored",
    "schema.applied",
    # a batch of the lake
    "lake.read",
    "lake.rows.written",
    "lake.vectors.written",
    "lake.history.committed",
    "lake.table.committed",
    "lake.cut.before",
    "lake.cut.after",
    "delta.commit.before",
    "delta.commit.after",
    "metadata.written",
    "large.read",
    # the index of keys, compaction, checkpoint and VACUUM
    "index.runs.written",
    "index.manifest.written",
    "compact.written",
    "compact.committed",
    "checkpoint.written",
    "vacuum.files",
    "vacuum.commits",
    # the followers behind the lake
    "feed.prepared",
    "search.marked",
    "search.written",
    "search.refreshed",
    "search.stored",
    "search.copy.filled",
    "search.copy.noted",
    "search.copy.placed",
    "latest.sent",
    "latest.position.sent",
    "latest.committed",
    "latest.copy.written",
    "percolator.rows",
    "percolator.evaluated",
    "percolator.committed",
    "views.written",
    "views.filled",
    "views.cut.before",
    "views.cut.after",
    "views.extended",
    # a capture that starts anew
    "recapture.begun",
    "recapture.dropped",
    "recapture.prepared",
    "recapture.copied",
    "recapture.loaded",
    "recapture.ended",
    # the process
    "lease.taken",
    "request.taken",
    "heartbeat.written",
]
NAMES: Final[tuple[FailPoint, ...]] = get_args(FailPoint)
_ENTRY: Final = re.compile(r"([a-z.]+):(?:(raise|kill)|stall=(\d+(?:\.\d+)?))(?:@([1-9]\d*))?")
_armed: dict[str, "_Armed"] = {}
_lock = threading.Lock()


@dataclass(slots=True)
class _Armed:
    """What is to happen at a point, after so many further passages."""

    action: str
    seconds: float
    passages: int


class FailPointError(OSError):
    """The error of a point that was told to raise."""


def reach(name: FailPoint) -> None:
    """Do what this point was armed with; nothing, nearly always."""
    if _armed:
        _act(name)


def arm(text: str) -> None:
    """Arm the points that this text names, as CDC_FAIL_POINTS has it, and no others. Raises ConfigurationError."""
    armed = dict(map(_read_entry, filter(None, map(str.strip, text.split(",")))))
    with _lock:
        _armed.clear()
        _armed.update(armed)


def arm_from(environ: Mapping[str, str]) -> None:
    """Arm what the environment names, if it does. Raises ConfigurationError."""
    if text := environ.get(VARIABLE):
        arm(text)


def list_armed() -> list[str]:
    """The points that were armed, and where nothing has happened yet."""
    with _lock:
        return [*_armed]


def _read_entry(entry: str) -> tuple[str, _Armed]:
    found = _ENTRY.fullmatch(entry)
    if found is None:
        raise ConfigurationError(
            f"{VARIABLE}: {entry!r} is no fail point with an action",
            "write NAME:raise, NAME:kill or NAME:stall=SECONDS, with @N for the Nth passage",
        )
    name, action, seconds, passage = found.groups()
    if name not in NAMES:
        raise ConfigurationError(f"{VARIABLE}: there is no fail point {name!r}", f"one of {', '.join(NAMES)}")
    return name, _Armed(action or "stall", float(seconds or 0), int(passage or 1))


def _act(name: str) -> None:
    with _lock:
        armed = _armed.get(name)
        if armed is None:
            return
        armed.passages -= 1
        if armed.passages:
            return
        # once: who starts again has to get through
        del _armed[name]
    if armed.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stderr.write(f"fail point {name}: {armed.action}\n")
    if armed.action == "raise":
        raise FailPointError(errno.EIO, f"fail point {name}")
    sleep(armed.seconds)
