"""`cdc status`: how everything stands, asked of the parts themselves, without Spark."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeVar

from psycopg import Connection, sql

from cdc.columns.feed import FedFollower
from cdc.columns.netting.transactions import Ends, to_columns
from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError, UnreachableError
from cdc.core.position import FIRST_LOG, Lsn, Position, format_lsn
from cdc.core.table import TableName
from cdc.core.transaction import TransactionEnd
from cdc.log.clients.reader import Reader
from cdc.log.names import transaction_topic
from cdc.log.transactions import LAST_MESSAGES, ends_in, log_bounds
from cdc.run.capture.continuity import check_continuity
from cdc.run.capture.lag import Lag, LagMeter
from cdc.run.lease import read_problem
from cdc.run.pipeline import delta_follower, lake_of
from cdc.run.tables import problems as left_behind
from cdc.run.tables.selection import list_followed, list_held_by
from connect.capture.connect_client import ConnectClient
from connect.capture.connector_state import look_up, trouble
from connect.capture.observation import CaptureLook, observed
from connect.capture.progress import Standstill, quiet_seconds, told_since
from connect.source import connection as source
from connect.source import preflight as readiness
from connect.source import slot
from connect.source.relation import shapes
from sinks.lake.feed.feed import LakeFeed
from sinks.lake.follower import DeltaFollower
from sinks.lake.metadata.cuts import Cut, Cuts
from sinks.latest.settings import LatestSettings

EXACT_BELOW = 1_000_000
"""Tables that the planner thinks smaller are counted, larger ones estimated unless asked otherwise."""
# reltuples is -1 where nobody has analysed a table yet: such a one is counted
_ESTIMATE: Final = """
SELECT (SELECT CASE WHEN min(c.reltuples) < 0 THEN -1 ELSE coalesce(sum(c.reltuples), 0) END
          FROM pg_class c
         WHERE c.oid = named.oid AND named.relkind <> 'p'
            OR c.oid IN (SELECT relid FROM pg_partition_tree(named.oid) WHERE isleaf))::bigint, named.relkind = 'p'
  FROM pg_class named WHERE named.oid = to_regclass(%s)"""


@dataclass(frozen=True, slots=True)
class FollowerState:
    """Where one follower stands; `rows` per table where it can say.

    `not_counted`: the tables whose rows only `exact` counts, since all of them would have to be read.
    """

    position: Position | None
    rows: Mapping[str, int | None]
    lag: Lag | None
    problem: str | None = None
    not_counted: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        at = self.position
        return {
            "lsn": format_lsn(at.lsn) if at else None,
            "end_offset": at.end_offset if at else None,
            "offsets": {t: dict(p) for t, p in at.next_offsets.items()} if at else {},
            "rows": dict(self.rows),
            "not_counted": list(self.not_counted),
            "lag": self.lag.as_json() if self.lag else None,
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True)
class Status:
    """Everything that `cdc status` shows; a part that does not answer is a problem, not an end."""

    source_lsn: Lsn | None
    source_rows: Mapping[str, int | None]
    slot: slot.SlotState | None
    log_end: TransactionEnd | None
    connector: Mapping[str, Any] | None
    followers: Mapping[str, FollowerState]
    lake_writes: Mapping[str, int] | None
    """What the lake writes in an hour, at the present rate: commits, files, bytes, and requests of an object store."""
    problems: Sequence[CdcError]
    log_age: float | None = None
    """Seconds since the newest commit in the log, by the source's clock."""

    def as_json(self) -> dict[str, Any]:
        return {
            "source": {
                "lsn": format_lsn(self.source_lsn) if self.source_lsn is not None else None,
                "rows": dict(self.source_rows),
            },
            "slot": _slot_to_json(self.slot),
            "log": self._log_json(),
            "connector": dict(self.connector) if self.connector else None,
            "followers": {name: state.as_json() for name, state in self.followers.items()},
            "lake_writes": self.lake_writes,
            "problems": [str(problem) for problem in self.problems],
        }

    def _log_json(self) -> dict[str, Any] | None:
        if self.log_end is None:
            return None
        age = round(self.log_age, 3) if self.log_age is not None else None
        return {"lsn": format_lsn(self.log_end.lsn), "end_offset": self.log_end.offset, "seconds_since_commit": age}

    @property
    def exit_code(self) -> int:
        """That of the first problem; 0 without one."""
        return next((problem.exit_code for problem in self.problems), 0)


T = TypeVar("T")


class StatusCollector:
    """Asks every part once, and notes what does not answer.

    `exact` counts rows where it takes long, too: large tables of the source, and latest logs.
    """

    def __init__(
        self, settings: PipelineSettings, fed: Callable[[], Mapping[str, FedFollower]], *, exact: bool = False
    ) -> None:
        self._settings = settings
        self._exact = exact
        self._fed = fed
        self._problems: list[CdcError] = []
        self._silent: dict[str, str] = {}
        self._tables: Sequence[TableName] = ()
        self._lsn: Lsn | None = None
        self._now = 0.0
        self._lake = delta_follower(settings)

    def collect(self) -> Status:
        """Everything, as it stands now."""
        lake = self._lake
        self._tables = self._asked(partial(list_followed, self._settings, lake)) or self._settings.selection.names
        cut = self._asked(Cuts(lake_of(self._settings)).last)
        self._lsn, rows, state = self._asked(partial(self._source, cut)) or (None, {}, None)
        fed = self._asked(self._fed) or {}
        positions = {self._settings.delta[0]: cut.position if cut else None}
        positions |= {name: self._position(name, each) for name, each in fed.items()}
        ends = self._asked(partial(self._recent_ends, positions.values())) or to_columns([])
        last = ends.last if len(ends) else None
        newest_at = last.committed_ms / 1000 if last else None
        connector = self._asked(partial(self._capture, newest_at))
        counts = {name: self._counts(name, each) for name, each in fed.items()} | {
            self._settings.delta[0]: self._held(cut)
        }
        self._note_tables(lake, fed)
        self._note_standing_still(positions)
        yardstick = LagMeter(self._tables, self._lsn, self._now, ends, self._is_current(newest_at))
        followers = {
            name: FollowerState(
                at, counts[name], yardstick.lag(at), self._silent.get(name), self._not_counted(name, counts[name])
            )
            for name, at in positions.items()
        }
        age = self._now - newest_at if newest_at is not None and self._lsn is not None else None
        price = self._asked(lake.write_rate)
        writes = price.as_json(requests=self._settings.delta[1].access is not None) if price else None
        return Status(self._lsn, rows, state, last, connector, followers, writes, tuple(self._problems), age)

    def _note_tables(self, lake: DeltaFollower, fed: Mapping[str, FedFollower]) -> None:
        """Note the tables that are followed no further, or not yet, and those that have dead letters."""
        for tell in (left_behind.describe_stops, left_behind.describe_uncopied):
            for problem in self._asked(partial(tell, self._settings, lake)) or ():
                self._note(problem)
        for follower, each in fed.items():
            for problem in self._asked(partial(left_behind.describe_stops_in, self._settings, follower, each)) or ():
                self._note(problem)
        for name, (keys, letters) in (self._asked(lake.count_blocked) or {}).items():
            self._note(left_behind.describe_held_keys(name, keys, letters))

    def _note_standing_still(self, followers: Iterable[str]) -> None:
        """Note what whoever follows them on this machine waits for."""
        for name in followers:
            if problem := read_problem(self._settings, name):
                self._note(type(problem)(f"follower {name} does not go on: {problem.what}", problem.remedy))
                self._silent.setdefault(name, problem.what)

    def _asked(self, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except CdcError as error:
            self._note(error)
            return None

    def _note(self, error: CdcError) -> None:
        if str(error) not in map(str, self._problems):
            self._problems.append(error)

    def _position(self, name: str, follower: FedFollower) -> Position | None:
        try:
            return follower.position()
        except CdcError as error:
            self._note(error)
            self._silent[name] = error.what
            return None

    def _source(self, cut: Cut | None) -> tuple[Lsn | None, dict[str, int | None], slot.SlotState | None]:
        settings = self._settings
        with source.connected(settings.source) as connection:
            unread = readiness.unreadable(connection, settings.source, shapes(connection, self._tables))
            for refusal in unread.values():
                self._note(refusal)
            rows = {
                str(table): None if table in unread else _count_source_rows(connection, table, exact=self._exact)
                for table in self._tables
            }
            state = slot.state(connection, settings.source.slot)
            self._asked(partial(slot.check_kept, state))
            self._now = source.clock(connection)
            if cut is not None:
                self._asked(delta_follower(settings).check_capture)
                self._asked(partial(check_continuity, settings, connection, cut.position))
            return source.current_lsn(connection), rows, state

    def _capture(self, newest_at: float | None) -> Mapping[str, Any] | None:
        """How the connector stands; notes why it does not run, or that it stands still though it seems to run."""
        name, found, silent = self._settings.connect.connector, None, None
        try:
            with ConnectClient(self._settings.connect.url) as client:
                found = look_up(client, name)
        except CdcError as error:
            silent = error
        if found and (failed := trouble(found)):
            self._note(told_since(failed, newest_at, self._now))
        elif still := self._standstill(newest_at):
            self._note(still.error(found, silent))
        elif silent:
            self._note(silent)
        if found is None or found.state is None:
            return None
        return {"name": name, "state": found.state, "tasks": [*found.tasks]}

    def _standstill(self, newest_at: float | None) -> Standstill | None:
        """Looked for only where the log has had no commit for longer than heartbeats take."""
        if self._lsn is None or self._is_current(newest_at):
            return None
        look = CaptureLook(self._settings.source, self._settings.log, self._settings.pipeline.name)
        # what does not answer has been noted
        with suppress(UnreachableError), source.connected(self._settings.source) as connection:
            return observed(look, connection)
        return None

    def _is_current(self, newest_at: float | None) -> bool:
        longest = quiet_seconds(self._settings.source.heartbeat_seconds)
        return newest_at is not None and self._now - newest_at < longest

    def _not_counted(self, name: str, rows: Mapping[str, int | None]) -> list[str]:
        has_to_be_read = isinstance(self._settings.followers[name], LatestSettings) and not self._exact
        return [table for table, count in rows.items() if count is None] if has_to_be_read else []

    def _recent_ends(self, positions: Iterable[Position | None]) -> Ends:
        """The ENDs that some follower may lack: those behind the last of them, and the newest where none is behind."""
        topic = transaction_topic(self._settings.log.prefix)
        known = [at for at in positions if at is not None]
        # of the capture that goes on now: what is older, nobody lacks by the log
        log_start = max(known, key=attrgetter("end_offset")).log_start if known else FIRST_LOG
        with Reader(self._settings.log) as reader:
            first, end = log_bounds(reader, topic, log_start)
            start = max(first, min([*(at.end_offset for at in known), end - LAST_MESSAGES]))
            return ends_in(reader, topic, start, end, log_start)

    def _held(self, cut: Cut | None) -> dict[str, int | None]:
        return {
            str(table): self._asked(partial(_count_lake_rows, self._settings, table, cut)) for table in self._tables
        }

    def _counts(self, name: str, follower: FedFollower) -> dict[str, int | None]:
        held = self._asked(partial(list_held_by, self._settings, self._lake, [name])) or ()
        return {
            str(table): self._asked(partial(follower.count, table, exact=self._exact))
            for table in self._tables
            if table in held
        }


def _count_source_rows(connection: Connection, table: TableName, *, exact: bool) -> int | None:
    name = sql.Identifier(table.schema, table.table)
    found = connection.execute(_ESTIMATE, (name.as_string(connection),)).fetchone()
    if found is None or (found[0] > EXACT_BELOW and not exact):
        return None if found is None else int(found[0])
    # of a partitioned table all, of another those that are its own
    counting = sql.SQL("SELECT count(*) FROM {}" if found[1] else "SELECT count(*) FROM ONLY {}")
    counted = connection.execute(counting.format(name)).fetchone()
    return int(counted[0]) if counted else None


def _count_lake_rows(settings: PipelineSettings, table: TableName, cut: Cut | None) -> int | None:
    if cut is None or str(table) not in cut.versions:
        return None
    return LakeFeed(None, lake_of(settings)).row_count(table, cut)


def _slot_to_json(found: slot.SlotState | None) -> dict[str, Any] | None:
    if found is None:
        return None
    confirmed, restart = found.confirmed_lsn, found.restart_lsn
    return {
        "name": found.name,
        "active": found.active,
        "wal_status": found.wal_status,
        "confirmed_lsn": format_lsn(confirmed) if confirmed is not None else None,
        "restart_lsn": format_lsn(restart) if restart is not None else None,
        "retained_bytes": found.retained_bytes,
    }
