"""All questions of a look, each with its lane, pace and limit, and in which order they are asked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

from cdc.core.position import Position
from cdc.core.table import TableName
from cdc.core.waiting import Deadline
from cdc.run.health.capture_health import Look
from cdc.run.health.standstill import quiet_seconds
from cdc.run.lease import COPIES
from cdc.run.pipeline import Pipeline
from cdc.run.status.asking.facts import SOURCE, CaptureLook, Facts, LogLook, RowCounts, SourceChecks
from cdc.run.status.asking.lake_questions import FedQuestions, LakeQuestions, look_at_streams, look_at_views
from cdc.run.status.asking.log_questions import CaptureQuestion, LogWindow
from cdc.run.status.asking.questions import ALWAYS, AnyQuestion, Lane, PacedQuestion, hold_seconds
from cdc.run.status.asking.source_questions import (
    STATEMENT_SECONDS,
    KeptSession,
    ask_source,
    check_history,
    check_tables,
    count_rows,
)
from cdc.run.status.stream_report import open_reports

CLOSE_SECONDS: Final = 1.0
"""How long the end waits for what is under way: a part that hangs is left to its thread."""
EVERY_SECONDS: Final = 2.0
"""The interval of looks, unless somebody wants another."""


@dataclass(frozen=True, slots=True)
class Paces:
    """How often each question is asked, in seconds. `limit`: how long a part may take until it does not answer.

    `cut`: the lake's newest cut; in a folder a look is free, on an object store it is a request.
    """

    every: float = EVERY_SECONDS
    cut: float = ALWAYS
    tables: float = 10.0
    views: float = 10.0
    rows: float = 60.0
    files: float = 300.0
    history: float = 60.0
    limit: float = 10.0
    slow_limit: float = 300.0
    observe_limit: float = 10.0
    is_single: bool = False
    """One look is all there is: it may take as long as it takes, and nothing in it is old."""

    @classmethod
    def of_one_look(cls) -> Self:
        """Of a verb that looks once, and is to be sure whether the capture stands still."""
        return cls(observe_limit=60.0, is_single=True)

    @classmethod
    def of(cls, pipeline: Pipeline, every: float = EVERY_SECONDS) -> Self:
        if pipeline.lake.access is None:
            return cls(every)
        return cls(every, cut=10.0, tables=60.0, views=300.0, rows=300.0)


class Questions:
    """The questions to all parts. Each lane has a pipeline of its own, whose parts it opens once.

    `exact`: rows are counted where that takes long, too, and nobody is told to hurry.
    """

    def __init__(self, pipeline: Pipeline, paces: Paces, look: Look, *, exact: bool) -> None:
        self._pipeline = pipeline
        self._paces = paces
        self._exact = exact
        self._lanes: dict[str, Lane] = {}
        self._closers: dict[str, list[Callable[[], None]]] = {}
        self._session, self._window = KeptSession(pipeline), LogWindow(pipeline)
        self._slow = KeptSession(pipeline, 0 if exact else STATEMENT_SECONDS)
        capture, views = CaptureQuestion(self._own("the capture"), look), self._own("the views")
        self.source = self._quick("the source", partial(ask_source, self._session, pipeline), close=self._session.close)
        self.lake = self._quick("the lake", LakeQuestions(self._own("the lake")).look, paces.cut)
        self.fed = {name: self._quick(name, FedQuestions(self._own(name), name).look) for name in self._fed_names()}
        self.log = self._quick("the log", self._look_at_log, close=self._window.close)
        look_at_capture = partial(self._look_at_capture, capture)
        self.capture = self._question("the capture", look_at_capture, ALWAYS, paces.observe_limit)
        self.views = self._quick("the views", partial(look_at_views, views), paces.views)
        self._ask_slowly()

    def _ask_slowly(self) -> None:
        pipeline, paces = self._pipeline, self._paces
        tables, files = "the source's tables", "the lake's tables"
        lake, slow = LakeQuestions(self._own(files)), self._own(tables)
        self.tables = self._patient(files, lake.look_at_tables, paces.tables)
        self.files = self._patient(files, lake.look_at_files, paces.files)
        self.checks = self._patient(tables, partial(self._check_tables, slow), paces.tables)
        self.continuity = self._patient(tables, partial(self._check_history, slow), paces.history)
        self.rows: dict[str, PacedQuestion[RowCounts]] = {
            SOURCE: self._patient(tables, self._count_source, paces.rows),
            pipeline.lake_name: self._patient(files, lake.count_rows, paces.rows),
        }
        self._closers[tables].append(self._slow.close)
        for name in self._fed_names():
            counted = f"rows of {name}"
            ask = partial(self._count_fed, name, FedQuestions(self._own(counted), name))
            self.rows[name] = self._patient(counted, ask, paces.rows)

    def _own(self, lane: str) -> Pipeline:
        """A pipeline of a lane's own, which is closed with it."""
        own = self._pipeline.reopened()
        self._closers.setdefault(lane, []).append(own.close)
        return own

    def _fed_names(self) -> list[str]:
        return [name for name in self._pipeline.settings.followers if name != self._pipeline.lake_name]

    def _quick(
        self, name: str, ask: Callable[[], Any], every: float = ALWAYS, close: Callable[[], None] | None = None
    ) -> PacedQuestion[Any]:
        self._closers.setdefault(name, []).extend([close] if close else [])
        return self._question(name, ask, every, self._paces.limit)

    def _patient(self, name: str, ask: Callable[[], Any], every: float) -> PacedQuestion[Any]:
        return self._question(name, ask, every, float("inf") if self._exact else self._paces.slow_limit)

    def _question(self, name: str, ask: Callable[[], Any], every: float, limit: float) -> PacedQuestion[Any]:
        lane = self._lanes.setdefault(name, Lane(name))
        holds = float("inf") if self._paces.is_single else hold_seconds(max(every, self._paces.every))
        return PacedQuestion(name, lane, ask, every=every, limit=limit, holds=holds)

    def ask_all(self, deadline: Deadline | None) -> None:
        """Ask what is due, and wait for the answers until `deadline`; without one, ask all, and wait for all."""
        for phase in self._phases():
            for question in phase:
                question.begin(now=deadline is None)
            for question in phase:
                # slow ones have a pace of their own: nobody waits for them, but for their first answers
                if deadline is None or question.is_awaited:
                    question.wait(deadline)

    def _phases(self) -> tuple[Sequence[AnyQuestion], ...]:
        """What is asked at the same time, and what needs the answers of those before."""
        return (
            [self.source, self.lake, *self.fed.values()],
            [self.log, self.tables, self.views],
            [self.capture, self.checks, self.continuity, self.files, *self.rows.values()],
        )

    def facts(self, now: float) -> Facts:
        """What is known at `now`, in seconds since 1970."""
        reports = open_reports(self._pipeline)
        return Facts(
            now,
            self.source.answer,
            self.checks.answer,
            self.continuity.answer,
            self.capture.answer,
            self.log.answer,
            self.lake.answer,
            self.tables.answer,
            self.files.answer,
            {name: question.answer for name, question in self.fed.items()},
            {name: question.answer for name, question in self.rows.items()},
            look_at_streams(self._pipeline),
            self.views.answer,
            reports.read_copies() if self._pipeline.leases.is_held(COPIES) else {},
            reports.read_verifications(),
            self._pipeline.requests.find_half_teardown(),
        )

    def close(self) -> None:
        """End the lanes, each after what it does now and with what it has opened; waits a moment for that."""
        for name, lane in self._lanes.items():
            lane.close(self._closers.get(name, ()))
        deadline = Deadline(CLOSE_SECONDS)
        for lane in self._lanes.values():
            lane.wait(deadline)

    def _look_at_log(self) -> LogLook:
        looks = [self.lake.answer.value, *(question.answer.value for question in self.fed.values())]
        positions: list[Position | None] = [look.position for look in looks if look]
        return self._window.look(positions)

    def _look_at_capture(self, question: CaptureQuestion) -> CaptureLook:
        source, log = self.source.answer, self.log.answer
        newest_at = log.value.newest_at if log.value and log.error is None else None
        # of a source or log that does not answer, its silence is told already
        if source.error is not None or source.value is None or log.error is not None:
            return question.ask(is_log_current=True)
        longest = quiet_seconds(self._pipeline.settings.source.heartbeat_seconds)
        return question.ask(is_log_current=newest_at is not None and source.value.now - newest_at < longest)

    def _tables(self) -> Sequence[TableName]:
        look = self.tables.answer.value
        return look.tables if look else self._pipeline.settings.selection.names

    def _check_tables(self, pipeline: Pipeline) -> SourceChecks:
        # of a part that does not answer nothing more is asked
        if self.source.answer.error:
            return SourceChecks()
        return check_tables(self._slow, pipeline, self._tables())

    def _check_history(self, pipeline: Pipeline) -> SourceChecks:
        look = self.lake.answer.value
        if self.source.answer.error or self.log.answer.error:
            return SourceChecks()
        return check_history(self._slow, pipeline, look.position if look else None)

    def _count_source(self) -> RowCounts:
        if self.source.answer.error:
            return RowCounts(dict.fromkeys(map(str, self._tables())))
        checks = self.checks.answer.value
        unreadable = [f.name for f in checks.findings if f.key.startswith("table.unreadable:")] if checks else []
        return count_rows(self._slow, self._tables(), exact=self._exact, unreadable=unreadable)

    def _count_fed(self, name: str, fed: FedQuestions) -> RowCounts:
        look = self.tables.answer.value
        held = [table for table in look.tables if name in look.holders.get(str(table), ())] if look else []
        if self.fed[name].answer.error:
            return RowCounts(dict.fromkeys(map(str, held)))
        return fed.count_rows(held, exact=self._exact)
