"""What a process alone knows of its streams, copies and verifications, as small files for whoever shows the state.

A report is replaced in one step, so a reader sees the old one or the new one; nobody waits for a lock. It is as old as
its `at` says: who reads it decides how long it holds.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, TypeVar

import msgspec

from cdc.core.errors import PreconditionError
from cdc.progress import Advance
from cdc.run.pipeline import Pipeline
from cdc.run.status.things import Verification

T = TypeVar("T")
EVERY_SECONDS: Final = 1.0
"""The least pause between two writes of a report."""
HOLDS_SECONDS: Final = 15.0
"""How long a report holds: five intervals of two seconds, and five seconds."""
FRESHNESS_BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Seconds: the bounds of the histogram of freshness."""
COPIES: Final = ".copies"
VERIFICATIONS: Final = ".verifications"
CATALOG: Final = ".catalog"


class StreamReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a follower's stream tells of itself. Totals count since `began_at`; times are seconds since 1970.

    `freshness`: seconds from a commit in the source until the follower had it, of the last minutes; `buckets`: how
    many of all `commits` were as fresh as each of FRESHNESS_BOUNDS. `batch_seconds`, `batch_changes`: of the newest
    batches; `stages`: seconds of all batches. `ops`: changes by operation. `counts`: of the whole process, by name and
    label, in one stream's report alone. `settings`: the digest of those that it runs with.
    """

    at: float
    began_at: float
    pid: int
    batches: int = 0
    retries: int = 0
    commits: int = 0
    freshness: Sequence[float] = ()
    freshness_sum: float = 0.0
    buckets: Mapping[str, int] = {}
    batch_seconds: Sequence[float] = ()
    batch_changes: Sequence[int] = ()
    stages: Mapping[str, float] = {}
    ops: Mapping[str, int] = {}
    counts: Mapping[str, Mapping[str, float]] | None = None
    settings: str = ""

    def holds(self, now: float) -> bool:
        """Whether it still tells of a stream that runs."""
        return now - self.at <= HOLDS_SECONDS


class CopyReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A copy of one table under way."""

    at: float
    began_at: float
    phase: str = "rows"
    done_rows: int = 0
    all_rows: int | None = None


class CatalogReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest look at the catalog: why it failed, or why tables could not be registered, by name."""

    at: float
    error: str = ""
    remedy: str = ""
    refused: Mapping[str, str] = {}

    def describe(self) -> str:
        """What is wrong, in one line; empty if nothing is."""
        return self.error or "; ".join(f"{name}: {why}" for name, why in self.refused.items())

    def find_problem(self) -> PreconditionError | None:
        """What is wrong, with what helps; None if nothing is."""
        if not (told := self.describe()):
            return None
        return PreconditionError(told, self.remedy or "`cdc follow` tries again by itself")


class RestartReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `cdc follow` does about a connector whose task has failed: how often it was started again, of how often at
    most, and why it is not started now. `failure`: why it failed last."""

    NAME: ClassVar[str] = ".restarts"
    at: float
    starts: int
    most: int
    failure: str
    held_back: str = ""


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports of one pipeline, as files of a folder."""

    folder: Path

    def write(self, name: str, report: object) -> None:
        """Put a report in the place of the last one; a full disk is no reason to stop."""
        path = self.folder / f"{name}.json"
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            # a name of its own: several processes may write the same report at once
            fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
            # made with the umask, by which `pipeline.readable_by` says who else may show the state
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
        """The copies that were told of last, by table: they hold as long as somebody holds the lease of copies."""
        return self.read(COPIES, dict[str, CopyReport]) or {}

    def read_catalog(self) -> CatalogReport | None:
        return self.read(CATALOG, CatalogReport)

    def write_catalog(self, report: CatalogReport) -> None:
        self.write(CATALOG, report)

    def read_verifications(self) -> Mapping[str, Verification]:
        """The newest verification of each follower."""
        names = [path.stem for path in (self.folder / VERIFICATIONS).glob("[!.]*.json")]
        found = {name: self.read(f"{VERIFICATIONS}/{name}", Verification) for name in sorted(names)}
        return {name: result for name, result in found.items() if result}

    def add_verifications(self, found: Mapping[str, Verification]) -> None:
        """Keep these results, each in the place of the follower's last: several processes may compare at once."""
        for name, result in found.items():
            self.write(f"{VERIFICATIONS}/{name}", result)


def open_reports(pipeline: Pipeline) -> Reports:
    """The reports of this pipeline's processes on this machine."""
    return Reports(pipeline.state / "reports" / pipeline.name)


@contextmanager
def report_copy(
    reports: Reports, table: str, all_rows: int | None, advance: Advance, clock: Callable[[], float] = time.time
) -> Iterator[Advance]:
    """Tell of a copy as long as the context lasts; gives `advance`, which tells of each further number of rows, too."""
    began, done, told = clock(), 0, float("-inf")
    lock = threading.Lock()

    def tell(rows: int) -> None:
        nonlocal done, told
        with lock:
            done += rows
            if (now := clock()) - told >= EVERY_SECONDS:
                told = now
                copy = CopyReport(at=now, began_at=began, done_rows=done, all_rows=all_rows)
                reports.write(COPIES, {table: copy})

    def advance_both(rows: int) -> None:
        advance(rows)
        tell(rows)

    tell(0)
    try:
        yield advance_both
    finally:
        reports.remove(COPIES)
