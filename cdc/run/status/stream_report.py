"""What a process alone knows of its streams, copies and verifications, as small files for whoever shows the state.

A report is replaced in one step, so a reader sees the old one or the new one; nobody waits for a lock. It is as old as
its `at` says: who reads it decides how long it holds.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from cdc.run.pipeline import Pipeline
from cdc.run.status.things import Verification

T = TypeVar("T")
EVERY_SECONDS: Final = 1.0
"""The least pause between two writes of a report."""
HOLDS_SECONDS: Final = 15.0
"""How long a report holds: five intervals of two seconds, and five seconds."""
COPIES: Final = ".copies"
VERIFICATIONS: Final = ".verifications"


class StreamReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a follower's stream tells of itself. Totals count since `began_at`; times are seconds since 1970.

    `freshness`: seconds from a commit in the source until the follower had it, of the newest batches. `stages`: seconds
    of the newest batches, in all. `buckets`: how many batches were that fresh or fresher, by the bounds of the metric.
    """

    at: float
    began_at: float
    pid: int
    batches: int = 0
    changes: int = 0
    retries: int = 0
    by_op: Mapping[str, int] = {}
    freshness: Sequence[float] = ()
    freshness_sum: float = 0.0
    buckets: Mapping[str, int] = {}
    batch_seconds: Sequence[float] = ()
    batch_changes: Sequence[int] = ()
    stages: Mapping[str, float] = {}


class CopyReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A copy of one table under way."""

    at: float
    began_at: float
    phase: str = "rows"
    done_rows: int = 0
    all_rows: int | None = None


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports of one pipeline, as files of a folder."""

    folder: Path

    def write(self, name: str, report: object) -> None:
        """Put a report in the place of the last one; a full disk is no reason to stop."""
        path = self.folder / f"{name}.json"
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(".new")
            fresh.write_bytes(msgspec.json.encode(report))
            fresh.replace(path)

    def remove(self, name: str) -> None:
        with suppress(OSError):
            (self.folder / f"{name}.json").unlink()

    def read(self, name: str, kind: type[T]) -> T | None:
        """The report; None without one, or for one that is not whole."""
        with suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode((self.folder / f"{name}.json").read_bytes(), type=kind)
        return None

    def read_stream(self, follower: str) -> StreamReport | None:
        return self.read(follower, StreamReport)

    def read_copies(self) -> Mapping[str, CopyReport]:
        """The copies under way, by table: those that were told of lately."""
        found = self.read(COPIES, dict[str, CopyReport]) or {}
        return {table: copy for table, copy in found.items() if time.time() - copy.at < HOLDS_SECONDS * 4}

    def read_verifications(self) -> Mapping[str, Verification]:
        """The newest verification of each follower."""
        return self.read(VERIFICATIONS, dict[str, Verification]) or {}

    def add_verifications(self, found: Mapping[str, Verification]) -> None:
        self.write(VERIFICATIONS, {**self.read_verifications(), **found})


def open_reports(pipeline: Pipeline) -> Reports:
    """The reports of this pipeline's processes on this machine."""
    return Reports(pipeline.state / "reports" / pipeline.name)


class CopyReporter:
    """Tells of the copies that this process makes, one after the other."""

    def __init__(self, reports: Reports, clock: Callable[[], float] = time.time) -> None:
        self._reports = reports
        self._clock = clock
        self._lock = threading.Lock()

    def begin(self, table: str, all_rows: int | None) -> Callable[[int], None]:
        """Tell that a copy begins; returns what is to be called with each further number of rows."""
        began, done, told = self._clock(), 0, 0.0

        def advance(rows: int) -> None:
            nonlocal done, told
            with self._lock:
                done += rows
                if (now := self._clock()) - told >= EVERY_SECONDS:
                    told = now
                    copy = CopyReport(at=now, began_at=began, done_rows=done, all_rows=all_rows)
                    self._reports.write(COPIES, {table: copy})

        advance(0)
        return advance

    def end(self) -> None:
        self._reports.remove(COPIES)
