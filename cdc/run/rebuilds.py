"""What this machine notes of rebuilds: one that goes on, and what is kept of before the last ones.

One file for each stream: a follower, or the views. A file that is lost costs the way back, and no row.
"""

import json
import os
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cdc.config.settings import VIEWS
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.position import Position
from cdc.core.table import TableName
from cdc.run.health.result import format_duration
from cdc.run.lease import name_rebuild
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.layout import folder_name
from cdc.sinks.lake.removal import remove_folders
from cdc.sinks.opensearch.layout import BESIDE, KEPT
from cdc.sinks.owner import Owner
from cdc.sinks.search.generations import Generations
from cdc.sinks.search.settings import SearchSettings

SWAPS: Final = "swaps"
"""The step from which on the old one may be replaced."""
JOINS: Final = "joins"
"""The step of a table that is replaced, and not brought to the lake's position yet."""
LOOK_SECONDS: Final = 60.0
"""Pause between two looks for what was kept long enough."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a table, index or view was before a rebuild, and until when it is kept, in seconds since 1970.

    `version`: of the Delta table, with the `position` of the cut that had it; `index`: the searched one, which has its
    own position.
    """

    until: float
    version: int | None = None
    position: Mapping[str, Any] | None = None
    index: str | None = None

    @property
    def at(self) -> Position | None:
        return Position.from_json(self.position) if self.position else None


@dataclass(frozen=True, slots=True)
class Running:
    """A rebuild that goes on, or was cut off; `is_back`: the way back from one.

    `of`: rows to copy; `since`: seconds since 1970. `replaced`: what was there before its swap, by table, also of a run
    of it that was cut off; empty before it swaps.
    """

    what: str
    source: str
    step: str
    since: float
    rows: int = 0
    of: int = 0
    is_back: bool = False
    replaced: Mapping[str, Replaced] = field(default_factory=dict)

    @classmethod
    def from_json(cls, noted: Mapping[str, Any]) -> "Running":
        replaced = {name: Replaced(**each) for name, each in noted.get("replaced", {}).items()}
        return cls(**{**noted, "replaced": replaced})

    @property
    def has_begun_to_swap(self) -> bool:
        """May readers have the new one already?"""
        return bool(self.replaced) or self.step in {SWAPS, JOINS}

    def describe(self, now: float) -> str:
        """What it does, with rows, rate and the time left where rows are copied."""
        if not self.of or not self.rows:
            return self.step
        rate = self.rows / max(now - self.since, 0.001)
        left = format_duration(max(self.of - self.rows, 0) / rate)
        return f"{self.step}, {self.rows:,} of {self.of:,} rows, {rate:,.0f} a second, about {left} left"


@dataclass(frozen=True, slots=True)
class RebuildNote:
    """What is noted of one stream's rebuilds."""

    running: Running | None = None
    kept: Mapping[str, Replaced] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rebuilds:
    """The notes of one pipeline's rebuilds, as files of a folder."""

    folder: Path

    @classmethod
    def of(cls, pipeline: Pipeline) -> "Rebuilds":
        return cls(pipeline.state / "rebuilds" / pipeline.name)

    def read(self, stream: str) -> RebuildNote:
        try:
            noted = json.loads(self._path(stream).read_text())
            running = Running.from_json(noted["running"]) if noted["running"] else None
            return RebuildNote(running, {name: Replaced(**each) for name, each in noted["kept"].items()})
        except (OSError, ValueError, KeyError, TypeError):
            return RebuildNote()

    def write(self, stream: str, note: RebuildNote) -> None:
        """Note it, in one step. Raises PreconditionError when it cannot be kept."""
        path = self._path(stream)
        if note == RebuildNote():
            path.unlink(missing_ok=True)
            return
        fresh = path.with_suffix(f".{os.getpid()}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps(asdict(note)))
            fresh.replace(path)
        except OSError as error:
            raise PreconditionError(
                f"the rebuild cannot be noted in {path}: {error.strerror}", "free space, or correct its rights"
            ) from None

    def list_streams(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def _path(self, stream: str) -> Path:
        return self.folder / f"{stream}.json"


def choose_end(pipeline: Pipeline) -> float:
    """Until when what is replaced now is kept: as long as the lake has its past."""
    return (datetime.now(UTC) + timedelta(hours=pipeline.settings.delta[1].retention_hours)).timestamp()


def describe_rebuilds(pipeline: Pipeline) -> list[CdcError]:
    """One line for each rebuild that goes on, or was cut off."""
    notes, now = Rebuilds.of(pipeline), datetime.now(UTC).timestamp()
    found = list[CdcError]()
    for stream in notes.list_streams():
        if running := notes.read(stream).running:
            is_held = pipeline.leases.is_held(name_rebuild(stream))
            found.append(_describe_going_on(running, now) if is_held else _describe_cut_off(running))
    return found


def _describe_going_on(running: Running, now: float) -> CdcError:
    does = "goes back to what was there before a rebuild" if running.is_back else "is being rebuilt"
    return PreconditionError(f"{running.what} {does}: {running.describe(now)}", f"wait; {_describe_readers(running)}")


def _describe_cut_off(running: Running) -> CdcError:
    verb, seen = f"`cdc rebuild {running.what}`", _describe_readers(running)
    if running.is_back:
        what, remedy = f"the way back from the rebuild of {running.what}", f"`cdc rebuild {running.what} --back-out`"
        return PreconditionError(f"{what} was cut off: {running.step}; {seen}", f"{remedy} goes on")
    back = "it returns to what was there before" if running.has_begun_to_swap else "it is given up"
    what = f"the rebuild of {running.what} was cut off: {running.step}; {seen}"
    return PreconditionError(what, f"{verb} goes on; with --back-out, {back}")


def _describe_readers(running: Running) -> str:
    if running.has_begun_to_swap:
        return "readers may see the one of before already" if running.is_back else "readers may see the new one already"
    return "readers see the rebuilt one" if running.is_back else "readers see the old"


def drop_regularly(pipeline: Pipeline, say: Callable[[str], None], ended: threading.Event) -> None:
    """Take away what was kept of before rebuilds for long enough, again and again until `ended` is set."""
    while not ended.wait(LOOK_SECONDS):
        for stream in Rebuilds.of(pipeline).list_streams():
            if not list_expired(pipeline, stream):
                continue
            # of a server that does not answer, or beside another rebuild: the next look tries it again
            with suppress(CdcError), pipeline.leases.hold(name_rebuild(stream)):
                for name in drop_kept(pipeline, stream, list_expired(pipeline, stream)):
                    say(f"{stream}: {name} as before its rebuild is kept no longer")


def list_expired(pipeline: Pipeline, stream: str) -> list[TableName]:
    """The tables of which the stream's note keeps what was before for long enough."""
    kept, now = Rebuilds.of(pipeline).read(stream).kept, datetime.now(UTC).timestamp()
    return [TableName.parse(name) for name, each in kept.items() if each.until <= now]


def drop_kept(pipeline: Pipeline, stream: str, only: Collection[TableName] | None = None) -> list[TableName]:
    """Take away what is kept of before a stream's rebuilds, of `only` these tables; returns the tables.

    The caller holds their lease.
    """
    notes, settings = Rebuilds.of(pipeline), pipeline.settings.followers.get(stream)
    note = notes.read(stream)
    gone = {name for name in map(TableName.parse, note.kept) if only is None or name in only}
    if isinstance(settings, SearchSettings):
        gone |= {*Generations.of(settings, Owner(pipeline.name, stream)).drop(KEPT, only)}
    # of the lake and its views: files go with the past of their tables
    left = {name: each for name, each in note.kept.items() if TableName.parse(name) not in gone}
    notes.write(stream, replace(note, kept=left))
    return sorted(gone)


def drop_unread(pipeline: Pipeline) -> None:
    """Take away all that rebuilds have built or kept, which nobody reads. Raises RefusedError while one goes on."""
    for stream in pipeline.settings.stream_names:
        with pipeline.leases.hold(name_rebuild(stream)):
            settings = pipeline.settings.followers.get(stream)
            if isinstance(settings, SearchSettings):
                Generations.of(settings, Owner(pipeline.name, stream)).drop(BESIDE)
            drop_kept(pipeline, stream)
            Rebuilds.of(pipeline).write(stream, RebuildNote())
    for name in map(TableName.parse, pipeline.settings.views):
        clear_view(pipeline, name)


def name_beside(view: TableName) -> TableName:
    """The name of a view while it is built beside; no table has it."""
    # Postgres keeps names of schemas that begin so for itself
    return TableName("pg_rebuilt", str(view))


def clear_cut_off_view(pipeline: Pipeline) -> None:
    """Take away what a rebuild of some view has left that was cut off: the next one's note replaces what is noted."""
    if running := Rebuilds.of(pipeline).read(VIEWS).running:
        clear_view(pipeline, TableName.parse(running.what))


def clear_view(pipeline: Pipeline, view: TableName) -> None:
    """Take away what is built beside a view."""
    lake = pipeline.lake
    remove_folders(lake, [folder_name(name_beside(view)), lake.of_rebuilt_views.metadata])
