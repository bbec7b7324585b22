"""All questions of a look, each with its lane, pace and limit, and in which order they are asked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from psycopg import Connection

from cdc.connect.capture.connector_state import ConnectorState
from cdc.core.errors import UnreachableError
from cdc.core.position import Position
from cdc.core.table import TableName
from cdc.core.waiting import Deadline
from cdc.log.clients.knock import check_reachable
from cdc.run.health.capture_health import find_connector
from cdc.run.health.observation import CaptureObserver
from cdc.run.health.slot_drop import SlotDropPlan
from cdc.run.health.standstill import Standstill, is_recent
from cdc.run.lease import COPIES
from cdc.run.pipeline import Pipeline
from cdc.run.status.asking.facts import (
    SOURCE,
    CaptureLook,
    Facts,
    FollowerLook,
    LogLook,
    RowCounts,
    SourceChecks,
)
from cdc.run.status.asking.file_question import FileQuestion
from cdc.run.status.asking.lake_questions import FedQuestions, LakeQuestions, look_at_streams, look_at_views
from cdc.run.status.asking.log_questions import CaptureQuestion, read_log_bytes
from cdc.run.status.asking.log_window import LogWindow
from cdc.run.status.asking.paces import Paces
from cdc.run.status.asking.questions import ALWAYS, AnyQuestion, Lane, LastAnswer, PacedQuestion, hold_seconds
from cdc.run.status.asking.source_questions import (
    STATEMENT_SECONDS,
    KeptSession,
    ask_source,
    check_history,
    check_tables,
    count_rows,
)
from cdc.run.status.stream_report import RestartReport, open_reports
from cdc.sinks.registry import is_kept_in_log

T = TypeVar("T")

CLOSE_SECONDS: Final = 1.0
"""How long the end waits for what is under way: a part that hangs is left to its thread."""


class Questions:
    """The questions to all parts. Each lane has a pipeline of its own, whose parts it opens once."""

    def __init__(self, pipeline: Pipeline, paces: Paces, file: Path | None = None) -> None:
        self._file = FileQuestion(file)
        self._pipeline = pipeline
        self._paces = paces
        self._lanes: dict[str, Lane] = {}
        self._closers: dict[str, list[Callable[[], None]]] = {}
        self._session, self._window = KeptSession(pipeline), LogWindow(pipeline)
        self._slow = KeptSession(pipeline, 0 if paces.exact else STATEMENT_SECONDS)
        own = self._own("the capture")
        capture, views = CaptureQuestion(own, self._look_whether_it_moves, self._give_connector), self._own("the views")
        connect = self._own("Kafka Connect")
        self.connector = self._quick("Kafka Connect", partial(find_connector, connect))
        self.source = self._quick("the source", partial(ask_source, self._session, pipeline), close=self._session.close)
        self.lake = self._quick("the lake", LakeQuestions(self._own("the lake")).look, paces.cut)
        self.fed = {name: self._quick(name, self._look_at_fed(name)) for name in self._fed_names()}
        self.log = self._quick("the log", self._look_at_log, close=self._window.close)
        look_at_capture = partial(self._look_at_capture, capture)
        self.capture = self._question("the capture", look_at_capture, ALWAYS, paces.observe_limit)
        self.views = self._quick("the views", self._behind(self.lake, partial(look_at_views, views)), paces.views)
        self._ask_slowly()

    def _ask_slowly(self) -> None:
        pipeline, paces = self._pipeline, self._paces
        tables, files = "the source's tables", "the lake's tables"
        lake, slow = LakeQuestions(self._own(files)), self._own(tables)
        self.tables = self._patient(files, self._behind(self.lake, lake.look_at_tables), paces.tables)
        self.log_bytes = self._patient(
            "the log's bytes", self._behind(self.log, partial(read_log_bytes, pipeline)), paces.files
        )
        self.files = self._patient(files, self._behind(self.lake, lake.look_at_files), paces.files)
        self.checks = self._patient(tables, partial(self._check_tables, slow), paces.tables)
        self.continuity = self._patient(tables, partial(self._check_history, slow), paces.history)
        self.rows: dict[str, PacedQuestion[RowCounts]] = {
            SOURCE: self._patient(tables, self._count_source, paces.rows),
            pipeline.lake_name: self._patient(files, self._behind(self.lake, lake.count_rows), paces.rows),
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
        return self._question(name, ask, every, float("inf") if self._paces.exact else self._paces.slow_limit)

    def _question(self, name: str, ask: Callable[[], Any], every: float, limit: float) -> PacedQuestion[Any]:
        lane = self._lanes.setdefault(name, Lane(name))
        holds = float("inf") if self._paces.is_single else hold_seconds(max(every, self._paces.every))
        return PacedQuestion(name, lane, ask, every=every, limit=limit, holds=holds)

    def ask_all(self, deadline: Deadline | None) -> None:
        """Ask what is due, and wait for the answers until `deadline`; without one, ask all, and wait for all."""
        for phase in self._phases(is_first=deadline is None):
            # nobody waits again for a part that has not answered the last look
            begun = [question for question in phase if question.begin(now=deadline is None) or deadline is None]
            for question in begun:
                # slow ones have a pace of their own: nobody waits for them, but for their first answers
                if deadline is None or question.is_awaited:
                    question.wait(deadline)

    def _phases(self, *, is_first: bool) -> Iterator[Sequence[AnyQuestion]]:
        """What is asked at the same time, and what needs the answers of those before.

        `is_first`: all are asked. A log is then asked at once, too, so that no part is waited for behind another.
        """
        parts = [self.source, self.connector, self.lake, *self.fed.values()]
        yield [*parts, self.log] if is_first else parts
        # behind the followers' positions, the log's ENDs are read on from them
        is_log_there = self.log.answer.error is None or not is_first
        yield [*([self.log] if is_log_there else []), self.tables, self.views]
        # another client, whose import alone takes a second: for charts, so of no use to who looks once
        bytes_ = [] if is_first else [self.log_bytes]
        yield [self.capture, self.checks, self.continuity, self.files, *self.rows.values(), *bytes_]

    def facts(self, now: float) -> Facts:
        """What is known at `now`, in seconds since 1970."""
        reports, streams = open_reports(self._pipeline), look_at_streams(self._pipeline, now)
        plan = SlotDropPlan.read(self._pipeline)
        running = {stream.report.settings for stream in streams.values() if stream.report}
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
            streams,
            self.views.answer,
            reports.read_copies() if self._pipeline.leases.is_held(COPIES) else {},
            reports.read_verifications(),
            self._file.look(running),
            self.log_bytes.answer,
            reports.read_catalog() if self._pipeline.settings.catalog else None,
            self._pipeline.requests.find_half_teardown(),
            plan.describe() if plan else None,
            reports.read(RestartReport.NAME, RestartReport),
        )

    def close(self) -> None:
        """End the lanes, each after what it does now and with what it has opened; waits a moment for that."""
        for name, lane in self._lanes.items():
            lane.close(self._closers.get(name, ()))
        deadline = Deadline(CLOSE_SECONDS)
        for lane in self._lanes.values():
            lane.wait(deadline)

    def _behind(self, part: AnyQuestion, ask: Callable[[], T]) -> Callable[[], T]:
        """The same question, for which a part that does not answer is not asked again."""

        def asked() -> T:
            if error := part.answer.error:
                raise error
            return ask()

        return asked

    def _look_at_fed(self, name: str) -> Callable[[], FollowerLook]:
        pipeline = self._own(name)
        questions = FedQuestions(pipeline, name)
        if not is_kept_in_log(pipeline.settings.followers[name]):
            return questions.look

        def look() -> FollowerLook:
            try:
                self._knock(self.fed[name])
                return questions.look()
            except UnreachableError:
                # its clients would go on connecting
                pipeline.close()
                raise

        return look

    def _knock(self, question: AnyQuestion) -> None:
        """Raise UnreachableError when Kafka takes no connection; one that has just answered is not asked."""
        answer = question.answer
        if answer.error is not None or answer.checked_at is None:
            check_reachable(self._pipeline.settings.log)

    def _look_at_log(self) -> LogLook:
        self._knock(self.log)
        looks = [self.lake.answer.value, *(question.answer.value for question in self.fed.values())]
        positions: list[Position | None] = [look.position for look in looks if look]
        return self._window.look(positions)

    def _look_at_capture(self, question: CaptureQuestion) -> CaptureLook:
        source, log = self.source.answer, self.log.answer
        # of a source or log that does not answer, its silence is told already
        if source.error is not None or source.value is None or log.error is not None:
            found = question.ask(is_log_current=True, explains=False)
            return replace(found, silent_since=self.connector.answer.since)
        newest_at, beats = log.value.newest_at if log.value else None, self._pipeline.settings.source.heartbeat_seconds
        found = question.ask(is_log_current=is_recent(newest_at, source.value.now, beats))
        before = self.capture.answer.value
        if found.has_failed and not (before and before.has_failed):
            # its slot may have been moved: else a minute would pass until that is known
            self.continuity.hurry()
        return replace(found, silent_since=self.connector.answer.since)

    def _give_connector(self) -> ConnectorState:
        """The connector's state, as this look has found it."""
        answer: LastAnswer[ConnectorState] = self.connector.answer
        if answer.error is not None or answer.value is None:
            raise answer.error or UnreachableError("Kafka Connect was not asked yet", "ask again")
        return answer.value

    def _look_whether_it_moves(self, observer: CaptureObserver, connection: Connection) -> Standstill | None:
        # a Kafka Connect that does not answer is cause enough: nobody waits to be sure of a standstill
        look = CaptureObserver.glance if self.connector.answer.error else self._paces.look
        return look(observer, connection)

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
        wheres = self._pipeline.settings.source.choices.wheres
        return count_rows(self._slow, self._tables(), wheres, exact=self._paces.exact, unreadable=unreadable)

    def _count_fed(self, name: str, fed: FedQuestions) -> RowCounts:
        look = self.tables.answer.value
        held = [table for table in look.tables if name in look.holders.get(str(table), ())] if look else []
        if self.fed[name].answer.error:
            return RowCounts(dict.fromkeys(map(str, held)))
        return fed.count_rows(held, exact=self._paces.exact)
