"""One check for all who depend on the capture: what counts as failing, and when waiting is no use, for whom."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from psycopg import Connection

from cdc.connect.capture.connector_state import ConnectorState
from cdc.connect.source.upgrade import Upgrade
from cdc.core.errors import RECAPTURE, CdcError, HistoryLostError, PreconditionError, UnreachableError
from cdc.core.position import Lsn
from cdc.run.copy import probe
from cdc.run.health import capture_health, patience
from cdc.run.health.capture_health import CaptureHealth
from cdc.run.health.observation import CaptureObserver
from cdc.run.health.patience import Patience
from cdc.run.health.result import Failing, Health, Healthy
from cdc.run.health.standstill import Standstill
from cdc.run.health.trouble import MEND
from cdc.run.pipeline import Pipeline
from cdc.run.requests import Requests

RUNNING = ConnectorState("c", "RUNNING", ("RUNNING",))
FAILED = ConnectorState("c", "RUNNING", ("FAILED",), "a row that Debezium cannot read")
STOPPED = ConnectorState("c", "STOPPED")
DELETED = ConnectorState("c", None)
SILENT = UnreachableError("Kafka Connect u does not answer", "is it running?")
LOST = HistoryLostError("slot s is gone", RECAPTURE)
STILL = Standstill(1000.0, 40.0, "slot s is read")
SOURCE = cast("Connection[Any]", SimpleNamespace())
STARTING, AT_ONCE, VERIFY = patience.STARTING, patience.AT_ONCE, patience.VERIFY
FOLLOW, BESIDE = patience.FOLLOW, patience.FOLLOW_BESIDE


class World:
    """The parts of a pipeline as one caller sees them: what Kafka Connect tells, whether data moves, and the time."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.connector: ConnectorState | CdcError = RUNNING
        self.moves: Standstill | CdcError | None = None
        self.obstacle: CdcError | None = None
        self.moved: CdcError | None = None
        self.upgrade: Upgrade | None = None
        self.gone: CdcError | None = None
        self.now = 0.0
        self.looks = 0
        patched.setattr(capture_health, "look_up", lambda *_: give(self.connector))
        patched.setattr(capture_health, "read_clock", lambda _: 1060.0)
        patched.setattr(capture_health, "time", SimpleNamespace(monotonic=lambda: self.now))
        patched.setattr("cdc.run.health.trouble.find_obstacle", lambda *_: self.obstacle)
        patched.setattr("cdc.run.health.trouble._find_reader", lambda *_: None)
        patched.setattr(capture_health, "check_slot", lambda *_: give(self.moved))
        patched.setattr(capture_health, "find_new_cluster", lambda *_: self.upgrade)
        patched.setattr(CaptureObserver, "newest", lambda _: (None, 1000.0))
        patched.setattr(capture_health, "GoneTopics", lambda _: SimpleNamespace(find_error=lambda: self.gone))

    @property
    def pipeline(self) -> Pipeline:
        source = SimpleNamespace(heartbeat_seconds=10, heartbeat_schema="cdc")
        log = SimpleNamespace(end=lambda topics: {topic: {} for topic in topics}, read=lambda *_: [])
        log_settings, connect = SimpleNamespace(prefix="p"), SimpleNamespace(connector="c")
        pipeline = SimpleNamespace(
            settings=SimpleNamespace(source=source, log=log_settings, connect=connect),
            name="shop",
            lake_follower=SimpleNamespace(position=SimpleNamespace),
            requests=Requests(Path("/nowhere")),
            open_connect=nullcontext,
            open_log=lambda: nullcontext(log),
            open_source=lambda: nullcontext(SOURCE),
        )
        return cast(Pipeline, pipeline)

    def health(self, *, is_behind_start: bool = False) -> CaptureHealth:
        return CaptureHealth(self.pipeline, self.look, is_behind_start=is_behind_start)

    def look(self, *_: object) -> Standstill | None:
        self.looks += 1
        found = give(self.moves)
        assert found is None or isinstance(found, Standstill)
        return found


def give(value: object) -> object:
    if isinstance(value, CdcError):
        raise value
    return value


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def last_of(world: World, allowed: Patience, *at: float) -> Health:
    """The last of the results of checks at these times."""
    health, found = world.health(), None
    for world.now in at:
        found = health.check(allowed)
    assert found
    return found


def is_final(found: Health) -> bool:
    assert isinstance(found, Failing)
    return found.is_final


@pytest.mark.parametrize("allowed", [STARTING, AT_ONCE, VERIFY, FOLLOW, BESIDE])
def test_a_capture_that_runs_and_moves_is_healthy(world: World, allowed: Patience) -> None:
    assert last_of(world, allowed, 0.0) == Healthy()


@pytest.mark.parametrize(
    ("allowed", "seconds", "final"),
    [(STARTING, 0, True), (FOLLOW, 0, True), (AT_ONCE, 0, True)]
    + [(allowed, seconds, seconds >= 60) for allowed in (VERIFY, BESIDE) for seconds in (0, 59, 60)],
)
def test_failed_connector_is_final_unless_somebody_may_repair_it(
    world: World, allowed: Patience, seconds: float, final: bool
) -> None:
    world.connector = FAILED
    assert is_final(last_of(world, allowed, 0.0, seconds)) is final
    assert not world.looks


@pytest.mark.parametrize("connector", [STOPPED, DELETED])
@pytest.mark.parametrize("allowed", [STARTING, VERIFY, FOLLOW, BESIDE])
def test_connector_that_is_stopped_for_a_moment_is_healthy(
    world: World, connector: ConnectorState, allowed: Patience
) -> None:
    world.connector = connector
    assert last_of(world, allowed, 0.0, 14.0) == Healthy()
    assert is_final(last_of(world, allowed, 0.0, 15.0))
    # who shows the state shows it
    assert is_final(last_of(world, AT_ONCE, 0.0))


def test_each_sign_is_waited_for_anew(world: World) -> None:
    health = world.health()
    for world.now, world.connector, healthy in (
        (0.0, STOPPED, True),
        (10.0, RUNNING, True),
        (15.0, STOPPED, True),
        (29.0, STOPPED, True),
        (30.0, STOPPED, False),
    ):
        assert isinstance(health.check(FOLLOW), Healthy) is healthy, world.now


@pytest.mark.parametrize("connector", [FAILED, STOPPED])
def test_a_moved_slot_explains_a_failure(world: World, connector: ConnectorState) -> None:
    # a connector that somebody stopped has not looked at its slot yet
    world.connector, world.moved = connector, HistoryLostError("slot s stands at 0/5", RECAPTURE)
    found = last_of(world, VERIFY, 0.0, 15.0)
    assert is_final(found)
    assert isinstance(found, Failing)
    assert isinstance(found.error, HistoryLostError) is (connector is FAILED)
    assert ("slot s stands at 0/5" in found.error.what) is (connector is FAILED)


def test_a_connector_that_fails_at_a_new_slot_is_no_lost_history(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recapture has just made the slot anew, and the lake still stands where the old one was."""
    world.connector, world.moved = FAILED, HistoryLostError("slot s stands at 0/5", RECAPTURE)
    monkeypatch.setattr(probe, "write_heartbeat", lambda *_: None)
    monkeypatch.setattr(patience, "LOOK_SECONDS", 0.0)
    with pytest.raises(CdcError, match="connector c failed: a row that Debezium cannot read") as failed:
        probe.wait_until_captured(world.pipeline, SOURCE)
    assert not isinstance(failed.value, HistoryLostError)


def test_a_slot_that_pg_upgrade_has_moved_is_no_lost_history(world: World) -> None:
    world.connector, world.moved = FAILED, HistoryLostError("slot s stands at 0/5", RECAPTURE)
    world.upgrade = Upgrade(7, 8, Lsn(5))
    found = last_of(world, VERIFY, 0.0, 15.0)
    assert isinstance(found, Failing)
    assert not isinstance(found.error, HistoryLostError)
    assert "`cdc bootstrap` goes on" in found.error.remedy


@pytest.mark.parametrize("allowed", [VERIFY, BESIDE])
def test_lost_history_is_final_whoever_follows(world: World, allowed: Patience) -> None:
    world.connector, world.obstacle = FAILED, LOST
    found = last_of(world, allowed, 0.0)
    assert is_final(found)
    assert isinstance(found, Failing)
    assert isinstance(found.error, HistoryLostError)


@pytest.mark.parametrize(
    ("allowed", "seconds", "final"),
    [
        (STARTING, 600.0, False),
        (AT_ONCE, 40.0, True),
        (VERIFY, 59.0, False),
        (VERIFY, 60.0, True),
        (FOLLOW, 119.0, False),
        (FOLLOW, 120.0, True),
        (BESIDE, 120.0, True),
    ],
)
def test_standstill_is_final_by_its_length(world: World, allowed: Patience, seconds: float, final: bool) -> None:
    world.moves = Standstill(1000.0, seconds, "slot s is read")
    assert is_final(last_of(world, allowed, 0.0)) is final


def test_standstill_that_the_source_causes_is_final(world: World) -> None:
    world.moves = Standstill(1000.0, 40.0, "slot s is read", obstacle=LOST)
    assert is_final(last_of(world, STARTING, 0.0))


@pytest.mark.parametrize(("seconds", "final"), [(0.0, False), (599.0, False), (600.0, True)])
def test_silent_kafka_connect_may_be_restarting(world: World, seconds: float, final: bool) -> None:
    world.connector = SILENT
    found = last_of(world, FOLLOW, 0.0, seconds)
    assert isinstance(found, Failing)
    assert (found.error, found.is_final) == (SILENT, final)
    # data is looked at all the same: the connector may run
    assert world.looks


def test_standstill_beside_a_silent_kafka_connect_names_both(world: World) -> None:
    world.connector, world.moves = SILENT, STILL
    found = last_of(world, FOLLOW, 0.0)
    assert isinstance(found, Failing)
    assert "capture stands still since" in found.error.what
    assert SILENT.what in found.error.what
    assert not found.is_final


def test_log_that_does_not_answer_is_left_to_who_reads_it(world: World) -> None:
    world.moves = UnreachableError("Kafka k does not answer", "is it running?")
    assert last_of(world, FOLLOW, 0.0) == Healthy()


def test_role_that_may_not_write_heartbeats_ends_the_check(world: World) -> None:
    world.moves = PreconditionError("role r may not UPDATE cdc.heartbeat", "GRANT UPDATE")
    with pytest.raises(PreconditionError, match="may not UPDATE"):
        last_of(world, FOLLOW, 0.0)


@pytest.mark.parametrize(
    ("is_behind_start", "says", "helps"),
    [
        (False, "; the newest commit in the log is from 1970-01-01 00:16:40 UTC (60 s ago)", MEND),
        (True, "", "mend the cause, then the same again"),
    ],
)
def test_error_of_a_failed_connector(world: World, is_behind_start: bool, says: str, helps: str) -> None:
    world.connector = FAILED
    found = world.health(is_behind_start=is_behind_start).check(AT_ONCE, SOURCE)
    assert isinstance(found, Failing)
    assert found.error.what == f"connector c failed: {FAILED.failure}{says}"
    assert found.error.remedy.startswith(helps)


def test_source_that_does_not_answer_hides_no_failed_connector(world: World) -> None:
    world.connector, health = FAILED, world.health()
    health._pipeline = cast(Pipeline, SimpleNamespace(**vars(health._pipeline) | {"open_source": refuse}))
    found = health.check(AT_ONCE)
    assert isinstance(found, Failing)
    assert str(found.error) == f"connector c failed: {FAILED.failure} → {MEND}"


def refuse() -> None:
    raise UnreachableError("Postgres h does not answer", "is it running?")


@pytest.mark.parametrize(
    ("error", "seconds", "final"),
    [
        (PreconditionError("publication p leaves changes out", "ALTER PUBLICATION"), 59.0, False),
        (PreconditionError("publication p leaves changes out", "ALTER PUBLICATION"), 60.0, True),
        (UnreachableError("Postgres h does not answer", "is it running?"), 599.0, False),
        (UnreachableError("Postgres h does not answer", "is it running?"), 600.0, True),
        (LOST, 0.0, True),
    ],
)
def test_error_that_ended_a_check_is_final_by_its_kind(
    world: World, error: CdcError, seconds: float, final: bool
) -> None:
    health = world.health()
    health.judge(error, BESIDE)
    world.now = seconds
    assert health.judge(error, BESIDE) == Failing(error, None, final, str(error))


GONE = PreconditionError("topic p.public.things is gone", "`cdc follow` copies public.things again by itself")


@pytest.mark.parametrize(
    ("allowed", "at", "final"), [(AT_ONCE, 0.0, True), (VERIFY, 59.0, False), (VERIFY, 60.0, True)]
)
def test_a_topic_that_is_gone_fails_before_anything_stands_still(
    world: World, allowed: Patience, at: float, *, final: bool
) -> None:
    world.gone = GONE
    found = last_of(world, allowed, 0.0, at)
    assert isinstance(found, Failing)
    assert (found.error, found.is_final, world.looks) == (GONE, final, 0)


def test_who_starts_the_connector_has_made_its_topics(world: World) -> None:
    world.gone = GONE
    assert world.health(is_behind_start=True).check(STARTING) == Healthy()
