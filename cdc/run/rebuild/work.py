"""What every rebuild is made of: the pipeline, whom it tells, and the note of how far it is."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from cdc.columns.feed import FedFollower
from cdc.core.errors import DivergenceError, PreconditionError, TableLostError
from cdc.core.position import Lsn, format_lsn
from cdc.core.table import TableName
from cdc.core.waiting import Deadline
from cdc.progress import Progress
from cdc.run.copy.fill_bar import open_fill_bar
from cdc.run.health.result import format_time
from cdc.run.pipeline import Pipeline
from cdc.run.rebuilds import SWAPS, RebuildNote, Rebuilds, Replaced, Running
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.layout import Lake

DIFFERS: Final = "built, and not equal"
"""The step of a rebuild that was verified in vain: the next one starts over."""
NOTE_SECONDS: Final = 1.0
"""Pause between two notes of rows."""


class From(StrEnum):
    """Of what something is rebuilt."""

    SOURCE = "source"
    LAKE = "lake"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """What a rebuild does, needs and leaves, as sentences; `bytes`: about the room that it needs beside the present."""

    what: str
    source: From
    happens: str
    needs: str
    leaves: str
    bytes: int | None = None

    @property
    def lines(self) -> list[str]:
        return [
            f"{self.what}, from the {self.source}: {self.happens}",
            f"it needs {self.needs}",
            f"it leaves {self.leaves}",
        ]

    def as_json(self) -> dict[str, Any]:
        told = {"happens": self.happens, "needs": self.needs, "leaves": self.leaves, "bytes": self.bytes}
        return {"what": self.what, "from": self.source.value, **told}


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """What is there now: rows by table, as verified at an LSN; `kept_until`: the old, in seconds since 1970."""

    what: str
    rows: Mapping[TableName, int]
    lsn: Lsn | None
    kept_until: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "rows": {str(name): count for name, count in self.rows.items()},
            "lsn": format_lsn(self.lsn) if self.lsn is not None else None,
            "kept_until": format_time(self.kept_until) if self.kept_until is not None else None,
        }


class Rebuild(Protocol):
    """One kind of rebuild; the caller holds its lease."""

    def plan(self) -> RebuildPlan:
        """What it would do; changes nothing. Raises CdcError when it cannot be."""

    def run(self) -> RebuildResult:
        """Build, verify and swap. Raises DivergenceError when what is built is not equal: nothing is swapped then."""

    def back_out(self) -> RebuildResult:
        """Give up what is built and was not swapped; else return to what was there before the last swap.

        Raises PreconditionError when there is neither.
        """


@dataclass(slots=True)
class Work:
    """One rebuild of a `stream`: a follower, or the views."""

    pipeline: Pipeline
    stream: str
    what: str
    source: From
    say: Callable[[str], None]
    progress: Progress
    is_back: bool = False
    _rows: int = 0
    _next_note: Deadline = field(default_factory=lambda: Deadline(0))

    @property
    def rebuilds(self) -> Rebuilds:
        return Rebuilds.of(self.pipeline)

    @property
    def note(self) -> RebuildNote:
        return self.rebuilds.read(self.stream)

    def begin(self, step: str, of: int = 0) -> None:
        """Note that this rebuild is at a step now, and say so."""
        note = self.note
        replaced = note.running.replaced if note.running and self._is_same(note.running) else {}
        running = Running(self.what, self.source.value, step, time.time(), 0, of, self.is_back, replaced)
        self.rebuilds.write(self.stream, replace(note, running=running))
        self.say(f"{self.what}: {step}")

    def advance(self, rows: int) -> None:
        """Note that so many rows more are copied."""
        self._rows += rows
        if self._next_note.is_past and (running := self.note.running):
            self._next_note = Deadline(NOTE_SECONDS)
            self.rebuilds.write(self.stream, replace(self.note, running=replace(running, rows=self._rows)))

    def is_midway(self) -> bool:
        """Was a rebuild of this cut off before it has replaced anything?

        Raises PreconditionError for one of something else on the same stream, whose note would be lost.
        """
        running = self.note.running
        if running is None or running.is_back or running.has_begun_to_swap:
            return False
        # of one follower it is all the same which tables were asked for
        if running.what.split()[0] != self.what.split()[0]:
            raise PreconditionError(
                f"the rebuild of {running.what} was cut off",
                f"`cdc rebuild {running.what}` goes on; with --back-out, it is given up",
            )
        return True

    def can_go_on(self) -> bool:
        """Is what was built by a rebuild that was cut off a part of this one?"""
        running = self.note.running
        return (
            running is not None
            and not running.is_back
            and running.step != DIFFERS
            and (running.what, running.source) == (self.what, self.source.value)
        )

    def is_cut_off_way_back(self) -> bool:
        """Was a way back of this cut off?

        Raises PreconditionError for one of other tables, which may have changed places with what is kept already.
        """
        running = self.note.running
        if running is None or not running.is_back:
            return False
        if running.what != self.what:
            raise PreconditionError(
                f"the way back from the rebuild of {running.what} was cut off",
                f"`cdc rebuild {running.what} --back-out` goes on",
            )
        return True

    def list_replaced(self) -> Mapping[TableName, Replaced]:
        """What a run that was cut off has noted before its swap."""
        running = self.note.running
        return {TableName.parse(name): each for name, each in running.replaced.items()} if running else {}

    def _is_same(self, running: Running) -> bool:
        """Is it an earlier run of this rebuild, or of this way back?"""
        return (running.what, running.is_back) == (self.what, self.is_back)

    def begin_way_back(self, step: str) -> None:
        self.is_back = True
        self.begin(step)

    def give_up(self) -> RebuildResult:
        """Note that nothing goes on, after what was built is taken away."""
        self.forget()
        self.say(f"{self.what}: what was built beside is given up; nothing was swapped")
        return RebuildResult(self.what, {}, None)

    def open_bar(self, follower: FedFollower, table: TableName, rows: int) -> AbstractContextManager[None]:
        return open_fill_bar(self.progress, self.stream, follower, table, rows, self.advance)

    def finish(self, tables: Iterable[TableName]) -> float | None:
        """Note the end of the rebuild of these tables; returns until when the old ones are kept."""
        replaced = self.note.running.replaced if self.note.running else {}
        note = RebuildNote(None, {**self.note.kept, **replaced})
        self.rebuilds.write(self.stream, note)
        return min((note.kept[str(name)].until for name in tables if str(name) in note.kept), default=None)

    def keep(self, kept: Mapping[TableName, Replaced]) -> None:
        """Note what is about to be replaced; a kill from here on may have replaced it.

        After a run that was cut off here, what that noted stays: what is there now may be its own. A way back leads to
        what is kept until it ends.
        """
        self.begin(SWAPS)
        note = self.note
        assert note.running
        replaced = {**{str(name): each for name, each in kept.items()}, **note.running.replaced}
        running = replace(note.running, replaced=replaced)
        self.rebuilds.write(self.stream, RebuildNote(running, note.kept if self.is_back else {**note.kept, **replaced}))

    def forget(self, tables: Iterable[TableName] = ()) -> None:
        """Note that nothing goes on, and that of these tables nothing is kept."""
        gone = set(map(str, tables))
        kept = {name: each for name, each in self.note.kept.items() if name not in gone}
        self.rebuilds.write(self.stream, RebuildNote(None, kept))


def describe_differences(what: str, lsn: Lsn, found: Sequence[str]) -> DivergenceError:
    return DivergenceError(
        f"{what} was built, and is not equal at {format_lsn(lsn)}: {'; '.join(found)}. Nothing was swapped",
        f"`cdc rebuild {what}` builds it again; with --back-out, what was built is dropped",
    )


def open_version(lake: Lake, name: TableName, version: int | None) -> DeltaLog | None:
    """A table as it was at a version; None where the lake has that no longer, with all its files."""
    with suppress(TableLostError, PreconditionError):
        log = layout.open_owned_log(lake, name, version)
        storage = lake.table_storage(name)
        there = {*storage.list_names("")}
        if log and all(file.path in there or "/" in file.path for file in log.snapshot.files.values()):
            return log
    return None
