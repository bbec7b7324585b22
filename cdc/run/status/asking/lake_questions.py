"""What is asked of the lake, of the followers behind it, and of this machine's notes about their streams."""

import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from cdc.columns.feed import FedFollower
from cdc.core.errors import CdcError
from cdc.core.table import TableName
from cdc.core.table_state import Listed
from cdc.log.envelope import ChangeOrigin
from cdc.run.pipeline import Pipeline
from cdc.run.rebuilds import describe_rebuilds
from cdc.run.status.asking.facts import FilesLook, FollowerLook, RowCounts, StreamLook, TablesLook, Trouble, ViewsLook
from cdc.run.status.asking.row_counts import count_lake_rows
from cdc.run.status.stream_report import open_reports
from cdc.run.status.things import Letters, Level, Writes, to_time
from cdc.run.tables import problems
from cdc.run.tables.selection import list_followed, list_held_by
from cdc.run.views.kept_histories import describe_history_problems
from cdc.run.views.kept_views import describe_stopped_views, describe_views
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.metadata.dead_letters import DeadLetter
from cdc.sinks.latest.settings import LatestSettings

T = TypeVar("T")
_read_origin: Final = msgspec.json.Decoder(ChangeOrigin).decode
SMALL_FILE_BYTES: Final = 8 * 1024 * 1024
"""Files below this size are counted as small: a reader opens each of them."""


class LakeQuestions:
    """Asks the lake; for one thread. What it has read of tables it keeps, and reads their new commits only."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._seen: Mapping[str, str] = {}

    def read_cut(self) -> Cut | None:
        """The newest cut, whoever has written it since."""
        cuts = self._pipeline.lake_follower.cuts
        cuts.invalidate()
        return cuts.last()

    def look(self) -> FollowerLook:
        """The position of the newest cut."""
        cut = self.read_cut()
        return FollowerLook(cut.position if cut else None)

    def look_at_tables(self) -> TablesLook:
        """The tables' states, and what is wrong with them: stops, held keys, missing copies, histories."""
        lake, cut = self._pipeline.lake_follower, self.read_cut()
        ids = dict(cut.ids) if cut else {}
        # of a table that was copied again, the one that was opened is another Delta table
        lake.tables.look_again([TableName.parse(name) for name, id in ids.items() if self._seen.get(name, id) != id])
        lake.letters.look_again()
        self._seen = ids
        tables, known = list_followed(self._pipeline), lake.tables.states()
        states = {str(table): known.get(table, Listed()) for table in tables}
        found = list[Trouble]()
        held = {
            str(table): counts for table, counts in (_ask(lake.letters.count_blocked, "letters", found) or {}).items()
        }
        self._find_stops(found)
        for kind, level, ask in (
            ("uncopied", Level.KNOW, problems.describe_uncopied),
            ("history", Level.TODAY, describe_history_problems),
        ):
            errors = _ask(partial(ask, self._pipeline), kind, found) or ()
            found += [Trouble(f"table.{kind}:{number}", level, error) for number, error in enumerate(errors)]
        found += map(_describe_held, held, held.values())
        for number, error in enumerate(describe_rebuilds(self._pipeline)):
            found.append(Trouble(f"table.rebuilt:{number}", Level.KNOW, error, is_failure=False))
        return TablesLook(tables, states, self._list_holders(tables), held, self._list_letters(held), found)

    def _list_holders(self, tables: Sequence[TableName]) -> Mapping[str, Sequence[str]]:
        held = {name: list_held_by(self._pipeline, [name]) for name in self._pipeline.settings.followers}
        return {str(table): [name for name, own in held.items() if table in own] for table in tables}

    def _list_letters(self, held: Mapping[str, tuple[int, int]]) -> Mapping[str, Letters]:
        """The letters by table and reason, without a value of them; most lakes have none."""
        grouped = defaultdict[tuple[str, str], list[DeadLetter]](list)
        for letter in self._pipeline.lake_follower.letters.all() if held else ():
            grouped[str(letter.table), letter.message.refusal.reason].append(letter)
        return {
            f"{table}|{reason}": Letters(
                table=table,
                reason=reason,
                keys=len({letter.message.key for letter in letters}),
                messages=len(letters),
                waiting=sum(letter.message.refusal.waits for letter in letters),
                oldest_at=_find_oldest(letters),
                first=letters[0].location,
            )
            for (table, reason), letters in grouped.items()
        }

    def _find_stops(self, found: list[Trouble]) -> None:
        stops = self._pipeline.lake_follower.tables.stops()
        for stop, error in zip(stops, problems.describe_stops(self._pipeline), strict=True):
            hurts = f"Every follower shows {stop.name} as of then; the other tables go on."
            level = Level.TODAY if stop.copy else Level.NOW
            key = f"table.stopped:{stop.name}"
            found.append(Trouble(key, level, error, f"{stop.name} is stopped", hurts, verb="recopy"))

    def count_rows(self) -> RowCounts:
        """The rows of each table at the newest cut."""
        cut, rows, found = self.read_cut(), dict[str, int | None](), list[Trouble]()
        for table in list_followed(self._pipeline):
            try:
                rows[str(table)] = count_lake_rows(self._pipeline, table, cut)
            except CdcError as error:
                rows[str(table)] = None
                found.append(Trouble(f"table.uncounted:{table}", Level.KNOW, error))
        return RowCounts(rows, findings=found)

    def look_at_files(self) -> FilesLook:
        """What the tables have as files, and what is written in an hour; reads the tables' new commits."""
        lake, cut = self._pipeline.lake_follower, self.read_cut()
        tables = lake.tables.all().values()
        for table in tables:
            # of a table that no cut has moved there is nothing new to read
            if cut is not None and table.is_in(cut) and not table.is_at(cut):
                table.writer.refresh()
        files = [file for table in tables for file in table.writer.snapshot.files.values()]
        live = sum(file.live_rows for file in files)
        stored = sum(file.rows for file in files)
        on_store = self._pipeline.lake.access is not None
        writes = Writes(**lake.write_rate().as_json(requests=on_store))
        small = sum(file.size < SMALL_FILE_BYTES for file in files)
        return FilesLook(
            len(files), small, sum(file.size for file in files), live, stored - live, writes, self._find_free_bytes()
        )

    def _find_free_bytes(self) -> Mapping[str, int]:
        """What is left where this machine keeps the lake, if it is in a folder, and its own state."""
        places = {"state": self._pipeline.state}
        if self._pipeline.lake.access is None:
            places["lake"] = Path(self._pipeline.settings.delta[1].path)
        return {name: shutil.disk_usage(place).free for name, place in places.items() if place.exists()}


def _ask(question: Callable[[], T], what: str, found: list[Trouble]) -> T | None:
    """Ask; an error is a finding, and the other answers stand."""
    try:
        return question()
    except CdcError as error:
        found.append(Trouble(f"table.{what}", Level.TODAY, error))
        return None


def _find_oldest(letters: Sequence[DeadLetter]) -> datetime | None:
    """When the oldest of these was committed, as far as its message can be read."""
    oldest = min(letters, key=lambda letter: letter.rank)
    with suppress(msgspec.MsgspecError):
        return to_time(_read_origin(oldest.message.value or b"").source.ts_ms / 1000)
    return None


def _describe_held(name: str, counts: tuple[int, int]) -> Trouble:
    hurts = "Later changes of these keys wait behind them; all other keys go on."
    error = problems.describe_blocked_keys(TableName.parse(name), *counts)
    return Trouble(f"letters.held:{name}", Level.KNOW, error, hurts=hurts, verb="replay")


class FedQuestions:
    """Asks one follower behind the lake; for one thread."""

    def __init__(self, pipeline: Pipeline, name: str) -> None:
        self._pipeline = pipeline
        self._name = name

    @property
    def _follower(self) -> FedFollower:
        return self._pipeline.fed[self._name]

    def look(self) -> FollowerLook:
        """Its position. Raises CdcError when it does not answer."""
        return FollowerLook(self._follower.position())

    def find_stops(self) -> Sequence[Trouble]:
        """The tables that are stopped in it."""
        return [
            Trouble(f"table.stopped_in_{self._name}:{number}", Level.NOW, error)
            for number, error in enumerate(problems.describe_stops_in(self._pipeline, self._name, self._follower))
        ]

    def count_rows(self, held: Sequence[TableName], *, exact: bool) -> RowCounts:
        """The rows of the tables that it holds, and the tables that are stopped in it."""
        rows, found = dict[str, int | None](), [*self.find_stops()]
        for table in held:
            try:
                rows[str(table)] = self._follower.count(table, exact=exact)
            except CdcError as error:
                rows[str(table)] = None
                found.append(Trouble(f"follower.uncounted:{self._name}", Level.KNOW, error))
        is_read = isinstance(self._pipeline.settings.followers[self._name], LatestSettings) and not exact
        return RowCounts(rows, [name for name, count in rows.items() if count is None] if is_read else (), found)


def look_at_views(pipeline: Pipeline) -> ViewsLook:
    """The views, and those that are kept up no further; opened anew, as others have written them since."""
    pipeline.look_again()
    if not pipeline.settings.views:
        return ViewsLook()
    found = [
        Trouble(f"view.stopped:{number}", Level.NOW, error)
        for number, error in enumerate(describe_stopped_views(pipeline))
    ]
    return ViewsLook(describe_views(pipeline), pipeline.views.cuts.last(), found)


def look_at_streams(pipeline: Pipeline, now: float) -> Mapping[str, StreamLook]:
    """What this machine has noted of each follower's stream, and of the views'; reports that hold at `now`."""
    return {name: _look_at_stream(pipeline, name, now) for name in pipeline.settings.stream_names}


def _look_at_stream(pipeline: Pipeline, name: str, now: float) -> StreamLook:
    note, report = pipeline.leases.look(name), open_reports(pipeline).read_stream(name)
    if report is not None and not report.holds(now):
        report = None
    # a pause stands whether or not somebody follows, and is no end
    if pause := pipeline.requests.read_pause(name):
        return StreamLook(note.is_held, problem=pause, report=report)
    return StreamLook(note.is_held, note.problem, note.end, note.noted_at if note.noted else None, report)
