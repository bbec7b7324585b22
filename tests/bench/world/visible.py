"""When each commit became visible to a reader: by the lake's cuts, in a plain Delta table, and in a search."""

import bisect
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

from tests.bench.world import versions
from tests.bench.world.jobs import Job
from tests.bench.world.ledger import Commit
from tests.bench.world.watching import Watching
from tests.support.waiting import until


class Sight(Protocol):
    """Watches one copy."""

    @property
    def watching(self) -> Watching:
        """The thread that looks."""

    def seen_at(self, commits: Sequence[Commit]) -> list[float]:
        """When each became visible by the wall clock; NaN where it did not, or nobody can tell."""


def wait_until_seen(sight: Sight, job: Job, commit: Commit, limit: float) -> float:
    """Return when the transaction became visible, waiting for it; fails when `job` ends before."""

    def seen() -> bool:
        return not math.isnan(sight.seen_at([commit])[0]) or job.check() or sight.watching.check()

    until(seen, f"{job.name} shows a change", limit)
    return sight.seen_at([commit])[0]


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut as a reader of the table of cuts saw it appear."""

    at: float
    lsn: int
    end_offset: int


@dataclass(slots=True)
class CutSight:
    """The lake's cuts: one holds every transaction that ends in the log at or before its LSN."""

    cuts: list[Cut] = field(default_factory=list)
    watching: Watching = field(default_factory=Watching)

    def seen_at(self, commits: Sequence[Commit]) -> list[float]:
        cuts = list(self.cuts)
        places = [bisect.bisect_left(cuts, commit.lsn, key=lambda cut: cut.lsn) for commit in commits]
        return [cuts[place].at if place < len(cuts) else math.nan for place in places]


@contextmanager
def cuts_seen(folder: Path, seconds: float = versions.LOOK_SECONDS) -> Iterator[CutSight]:
    """Watch the table of cuts, and look so often."""
    sight = CutSight()

    def look(folder: Path, at: float, actions: versions.Actions) -> None:
        for file in versions.added(actions):
            stats = json.loads(file.get("stats") or "{}").get("maxValues", {})
            if not {"lsn", "end_offset"} <= stats.keys():
                stats = pq.read_table(folder / file["path"], columns=["lsn", "end_offset"]).to_pylist()[-1]
            sight.cuts.append(Cut(at, stats["lsn"], stats["end_offset"]))

    with versions.watched([folder], look, seconds) as sight.watching:
        yield sight


def newest_cut(folder: Path) -> dict[str, int]:
    """The version of every table in the newest cut."""
    query = QueryBuilder().register("cuts", DeltaTable(str(folder)))
    rows = pa.table(query.execute("SELECT versions FROM cuts ORDER BY end_offset DESC LIMIT 1").read_all())
    found: dict[str, int] = json.loads(rows["versions"][0].as_py())
    return found


@dataclass(slots=True)
class RowSight:
    """Plain Delta tables: a transaction is visible when each of them has a version that brought a row of it.

    One whose row was deleted, or written again before anybody looked, is in no version: nobody can tell.
    """

    seen: dict[Path, dict[int, float]]
    watching: Watching = field(default_factory=Watching)

    def seen_at(self, commits: Sequence[Commit]) -> list[float]:
        return [self._seen_at(commit.xid) for commit in commits]

    def _seen_at(self, xid: int) -> float:
        times = [table.get(xid, math.nan) for table in self.seen.values()]
        return math.nan if any(map(math.isnan, times)) else max(times)


@contextmanager
def rows_seen(folders: Sequence[Path]) -> Iterator[RowSight]:
    """Watch tables whose rows name their transaction in `xid`."""
    sight = RowSight({folder: {} for folder in folders})
    read: set[Path] = set()

    def look(folder: Path, at: float, actions: versions.Actions) -> None:
        # a file whose deletion vector grew is added again
        fresh = {folder / file["path"] for file in versions.added(actions)} - read
        for file in fresh:
            for xid in pq.read_table(file, columns=["xid"])["xid"].unique().to_pylist():
                sight.seen[folder].setdefault(xid, at)
        read.update(fresh)

    with versions.watched(folders, look) as sight.watching:
        yield sight


Places = Mapping[int, tuple[int, int]]
"""Writer and place among its transactions, by transaction id."""


@dataclass(slots=True)
class PlaceSight:
    """An index: when the highest place of each writer that a search finds changed, in the order of time."""

    places: Places
    found: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """By writer: when a search first found this place, which holds for all lower ones."""
    watching: Watching = field(default_factory=Watching)

    def find(self, at: float, highest: Mapping[int, int]) -> None:
        """Take in what a search has found."""
        for writer, place in highest.items():
            known = self.found.setdefault(writer, [])
            if not known or place > known[-1][1]:
                known.append((at, place))

    def reached(self, writer: int, place: int) -> bool:
        """Has a search found this place of a writer, or a later one?"""
        known = self.found.get(writer)
        return known is not None and known[-1][1] >= place

    def seen_at(self, commits: Sequence[Commit]) -> list[float]:
        return [self._seen_at(commit.xid) for commit in commits]

    def _seen_at(self, xid: int) -> float:
        writer, place = self.places.get(xid, (None, 0))
        known = self.found.get(writer, []) if writer is not None else []
        index = bisect.bisect_left(known, place, key=lambda sample: sample[1])
        return known[index][0] if index < len(known) else math.nan
