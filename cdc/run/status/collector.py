"""`cdc status`: asks source, log, connector and followers for their state, without Spark."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TypeVar

from cdc.columns.feed import FedFollower
from cdc.columns.netting.ends import Ends, to_columns
from cdc.config.settings import VIEWS
from cdc.connect.capture.connector_state import ConnectorState
from cdc.connect.source import connection as source
from cdc.connect.source import preflight, publication, slot
from cdc.connect.source.relation import read_shapes
from cdc.core.errors import CdcError
from cdc.core.position import FIRST_LOG, Lsn, Position
from cdc.core.table import TableName
from cdc.core.table_state import Listed, TableState
from cdc.log.names import transaction_topic
from cdc.log.transaction_topic import LAST_MESSAGES, log_bounds, read_ends_between
from cdc.run.health.capture_health import CaptureHealth
from cdc.run.health.continuity import check_continuity
from cdc.run.health.observation import CaptureObserver
from cdc.run.health.patience import AT_ONCE
from cdc.run.health.result import Failing
from cdc.run.health.standstill import quiet_seconds
from cdc.run.kept_histories import describe_history_problems
from cdc.run.kept_views import describe_stopped_views, describe_views
from cdc.run.pipeline import Pipeline
from cdc.run.status.lag import LagMeter
from cdc.run.status.row_counts import count_lake_rows, count_source_rows
from cdc.run.status.status import FollowerState, Status
from cdc.run.tables import problems
from cdc.run.tables.column_notices import describe_unsent_columns
from cdc.run.tables.selection import list_followed, list_held_by
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.latest.settings import LatestSettings

T = TypeVar("T")


class StatusCollector:
    """Asks every part once; a part that does not answer becomes a problem of the status.

    `exact` also counts rows where that takes long: in large source tables and in latest logs.
    """

    def __init__(self, pipeline: Pipeline, *, exact: bool = False) -> None:
        self._pipeline = pipeline
        self._exact = exact
        self._problems: list[CdcError] = []
        self._notes: Sequence[str] = ()
        self._problem_of: dict[str, str] = {}
        self._tables: Sequence[TableName] = ()
        self._lsn: Lsn | None = None
        self._now = 0.0
        self._lake = pipeline.lake_follower

    def collect(self) -> Status:
        """Ask all parts; returns their state now.

        If the newest commit in the log is older than heartbeats take, it writes one, and looks for some seconds whether
        it arrives (`observe`). What does not answer is a problem in the status, and ends nothing.
        """
        lake = self._lake
        self._tables = self._ask(partial(list_followed, self._pipeline)) or self._pipeline.settings.selection.names
        cut = self._ask(lake.cuts.last)
        # None for everything that failed: the rest of the status is shown all the same
        self._lsn, rows, state = self._ask(partial(self._read_source, cut)) or (None, {}, None)
        fed = self._ask(lambda: self._pipeline.fed) or {}
        positions = {self._pipeline.lake_name: cut.position if cut else None}
        positions |= {name: self._read_position(name, follower) for name, follower in fed.items()}
        ends = self._ask(partial(self._read_recent_ends, positions.values())) or to_columns([])
        last = ends.last if len(ends) else None
        newest_at = last.committed_ms / 1000 if last else None
        connector = self._ask(partial(self._read_connector, newest_at))
        counts = {name: self._count_rows(name, follower) for name, follower in fed.items()}
        of_lake = {str(t): self._ask(partial(count_lake_rows, self._pipeline, t, cut)) for t in self._tables}
        counts |= {self._pipeline.lake_name: of_lake}
        self._add_table_problems(lake, fed)
        self._add_stream_problems(positions)
        meter = LagMeter(self._tables, self._lsn, self._now, ends, self._is_current(newest_at))
        followers = {name: self._describe(name, at, counts[name], meter) for name, at in positions.items()}
        age = self._now - newest_at if newest_at is not None and self._lsn is not None else None
        rate, states = self._ask(lake.write_rate), self._read_states()
        writes = rate.as_json(requests=self._pipeline.settings.delta[1].access is not None) if rate else None
        views = self._ask(partial(describe_views, self._pipeline)) or ()
        for problem in self._ask(partial(describe_stopped_views, self._pipeline)) or ():
            self._add_problem(problem)
        every_problem = tuple(self._problems)
        return Status(
            *(
                self._lsn,
                rows,
                state,
                last,
                connector,
                followers,
                states,
                writes,
                every_problem,
                age,
                views,
                self._notes,
            )
        )

    def _describe(
        self, name: str, at: Position | None, rows: Mapping[str, int | None], meter: LagMeter
    ) -> FollowerState:
        not_counted = self._list_not_counted(name, rows)
        return FollowerState(at, rows, meter.measure(at), self._problem_of.get(name), not_counted)

    def _read_states(self) -> dict[str, TableState]:
        """The lake's states; a selected table that the lake does not list yet is as one without a copy."""
        known = self._ask(self._lake.tables.states)
        return {} if known is None else {str(table): known.get(table, Listed()) for table in self._tables}

    def _add_table_problems(self, lake: DeltaFollower, fed: Mapping[str, FedFollower]) -> None:
        """Add the stopped tables, those not copied yet, and those with dead letters."""
        for describe in (problems.describe_stops, problems.describe_uncopied):
            for problem in self._ask(partial(describe, self._pipeline)) or ():
                self._add_problem(problem)
        for name, follower in fed.items():
            for problem in self._ask(partial(problems.describe_stops_in, self._pipeline, name, follower)) or ():
                self._add_problem(problem)
        for problem in self._ask(partial(describe_history_problems, self._pipeline)) or ():
            self._add_problem(problem)
        for table, (keys, letters) in (self._ask(lake.letters.count_blocked) or {}).items():
            self._add_problem(problems.describe_blocked_keys(table, keys, letters))

    def _add_stream_problems(self, followers: Iterable[str]) -> None:
        """Add the problems for which streams on this machine are waiting, and those that have ended them for good."""
        views = [VIEWS] if self._pipeline.settings.views else []
        for name in (*followers, *views):
            if pause := self._pipeline.requests.read_pause(name):
                self._add_problem(pause)
                self._problem_of.setdefault(name, pause.what)
            elif problem := self._pipeline.leases.read_problem(name):
                self._add_stream_problem(name, problem, f"follower {name} does not go on")
            elif ended := self._pipeline.leases.read_end(name):
                self._add_stream_problem(name, ended, f"follower {name} has stopped, and nobody follows it")

    def _add_stream_problem(self, name: str, problem: CdcError, event: str) -> None:
        self._add_problem(type(problem)(f"{event}: {problem.what}", problem.remedy))
        # a follower that does not answer has given its reason already
        self._problem_of.setdefault(name, problem.what)

    def _ask(self, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except CdcError as error:
            self._add_problem(error)
            return None

    def _add_problem(self, error: CdcError) -> None:
        # a part that is down answers several questions with one error
        if str(error) not in map(str, self._problems):
            self._problems.append(error)

    def _read_position(self, name: str, follower: FedFollower) -> Position | None:
        try:
            return follower.position()
        except CdcError as error:
            self._add_problem(error)
            self._problem_of[name] = error.what
            return None

    def _read_source(self, cut: Cut | None) -> tuple[Lsn | None, dict[str, int | None], slot.SlotState | None]:
        pipeline = self._pipeline
        with pipeline.open_source() as connection:
            shapes = read_shapes(connection, self._tables)
            self._notes = tuple(map(str, describe_unsent_columns(shapes)))
            # a table without the right to read it would end the whole look at the source
            unreadable = preflight.find_unreadable(connection, pipeline.settings.source, shapes)
            for refusal in unreadable.values():
                self._add_problem(refusal)
            for left_out in problems.describe_children(pipeline, connection, self._tables):
                self._add_problem(left_out)
            # asked one by one: a table that is locked is a problem of its own
            counts = {table: partial(count_source_rows, connection, table, exact=self._exact) for table in self._tables}
            rows = {str(table): None if table in unreadable else self._ask(count) for table, count in counts.items()}
            state = slot.read_state(connection, pipeline.settings.source.slot)
            # asked for their errors: a problem ends neither the look at the source nor the status
            self._ask(partial(slot.check_wal_kept, state))
            self._ask(partial(publication.check_whole, connection, pipeline.settings.source.publication))
            self._now = source.read_clock(connection)
            if cut is not None:
                self._ask(self._lake.cuts.check_capture)
                self._ask(partial(check_continuity, pipeline, connection, cut.position))
            return source.current_lsn(connection), rows, state

    def _read_connector(self, newest_at: float | None) -> ConnectorState | None:
        """The connector's state, None if it is not known; adds why it does not run, or that no data moves anyway."""
        health = CaptureHealth(self._pipeline, CaptureObserver.observe)
        # looks at data only when the newest commit in the log is older than heartbeats take to arrive
        is_enough = self._lsn is None or self._is_current(newest_at)
        found = (health.check_connector if is_enough else health.check)(AT_ONCE)
        if isinstance(found, Failing):
            self._add_problem(found.error)
        return health.connector if health.connector and health.connector.state is not None else None

    def _is_current(self, newest_at: float | None) -> bool:
        longest = quiet_seconds(self._pipeline.settings.source.heartbeat_seconds)
        return newest_at is not None and self._now - newest_at < longest

    def _list_not_counted(self, name: str, rows: Mapping[str, int | None]) -> list[str]:
        has_to_be_read = isinstance(self._pipeline.settings.followers[name], LatestSettings) and not self._exact
        return [table for table, count in rows.items() if count is None] if has_to_be_read else []

    def _read_recent_ends(self, positions: Iterable[Position | None]) -> Ends:
        """The ENDs that some follower may lack; at least the newest ones, for the age of the log."""
        topic = transaction_topic(self._pipeline.settings.log.prefix)
        known = [at for at in positions if at is not None]
        # of the present capture only: no follower still needs older ones
        log_start = max(known, key=attrgetter("end_offset")).log_start if known else FIRST_LOG
        with self._pipeline.open_log() as reader:
            first, end = log_bounds(reader, topic, log_start)
            start = max(first, min([*(at.end_offset for at in known), end - LAST_MESSAGES]))
            return read_ends_between(reader, topic, start, end, log_start)

    def _count_rows(self, name: str, follower: FedFollower) -> dict[str, int | None]:
        own = self._ask(partial(list_held_by, self._pipeline, [name])) or ()
        return {
            str(table): self._ask(partial(follower.count, table, exact=self._exact))
            for table in self._tables
            if table in own
        }
