"""The rule that tells a standstill of the capture from slowness, without any server."""

from dataclasses import replace
from typing import Any

import pytest

from cdc.core.errors import PreconditionError, UnreachableError
from cdc.core.position import Lsn
from cdc.run.health.patience import FOLLOW
from cdc.run.health.result import fail_since, format_duration
from cdc.run.health.standstill import (
    Observation,
    Quiet,
    Standstill,
    has_moved,
    quiet_seconds,
)

BEAT = Lsn(500)
QUIET = 30.0
CONNECTOR = "connector c is RUNNING, its task is RUNNING"
WRITTEN = {"t": {0: 7}, "u": {0: 1, 1: 2}}
FIRST = Observation(1000.0, Lsn(400), Lsn(600), True, False, Lsn(400), 950.0, WRITTEN)


def later(seconds: float, **seen: Any) -> Observation:
    return replace(FIRST, at=FIRST.at + seconds, **seen)


@pytest.mark.parametrize(
    ("seen", "moved"),
    [
        ({}, False),
        ({"confirmed": Lsn(401)}, True),
        ({"newest_lsn": Lsn(401)}, True),
        ({"written": {"t": {0: 9}, "u": {0: 1, 1: 2}}}, True),
        ({"written": {"t": {0: 7}, "u": {0: 1, 1: 2, 2: 2}}}, True),
        # the marker of a transaction that a broker gives up
        ({"written": {"t": {0: 8}, "u": {0: 1, 1: 3}}}, False),
        # Debezium reads on into its queue while nothing gets out of it
        ({"sent": Lsn(700)}, False),
        ({"is_decoding": True}, False),
        ({"sent": Lsn(450)}, True),
        ({"sent": None}, False),
    ],
)
def test_signs_of_progress(seen: dict[str, object], moved: bool) -> None:
    assert has_moved(FIRST, later(10, **seen), BEAT) is moved


def test_postgres_reading_before_our_row_is_progress() -> None:
    before = replace(FIRST, sent=Lsn(450))
    assert has_moved(before, replace(before, is_decoding=True), BEAT)
    assert not has_moved(before, before, BEAT)


@pytest.mark.parametrize(
    ("quiet", "now", "since"),
    [
        (Quiet(FIRST, BEAT), later(10), 950.0),
        # looked at for too short a time
        (Quiet(FIRST, BEAT), later(9), None),
        (Quiet(FIRST, BEAT), later(10, newest_lsn=Lsn(501)), None),
        # it moved a moment ago, though no commit has come for longer
        (Quiet(FIRST, BEAT, moved_at=1000.0), later(20), None),
        (Quiet(FIRST, BEAT, moved_at=1000.0), later(30), 1000.0),
        (Quiet(FIRST, BEAT), later(15, newest_at=990.0), None),
        (Quiet(FIRST, BEAT), later(25, newest_at=None, newest_lsn=None), None),
        (Quiet(FIRST, BEAT), later(30, newest_at=None, newest_lsn=None), 1000.0),
        # a large transaction is walked through before our row
        (Quiet(FIRST, BEAT), later(60, sent=Lsn(450)), None),
        (Quiet(FIRST, BEAT), later(70, sent=Lsn(450)), 950.0),
        # its producer waits for a topic that is gone, and Postgres waits for it
        (Quiet(FIRST, BEAT), later(10, sent=Lsn(450), written={**WRITTEN, "t": {}}), 950.0),
    ],
)
def test_start_of_a_standstill(quiet: Quiet, now: Observation, since: float | None) -> None:
    assert quiet.still_since(now, QUIET) == since


def test_frequent_heartbeats_do_not_shorten_the_patience() -> None:
    assert quiet_seconds(1) == 15
    assert quiet_seconds(10) == 30
    assert quiet_seconds(60) == 180


def test_error_of_a_standstill() -> None:
    told = Standstill(43390.0, 40.0, "slot s is read").to_failing(CONNECTOR, None, FOLLOW)
    assert str(told.error) == (
        "capture stands still since 1970-01-01 12:03:10 UTC (40 s): connector c is RUNNING, its task is RUNNING, slot s"
        " is read → see Kafka Connect's log; `cdc bootstrap` starts the connector anew"
    )
    assert not told.is_final
    longer = Standstill(43390.0, 130.0, "slot s is read").to_failing(CONNECTOR, None, FOLLOW)
    assert longer.kind == told.kind
    assert longer.is_final
    assert told.since == longer.since == 43390.0
    silent = UnreachableError("Kafka Connect u does not answer", "is it running?")
    assert not Standstill(43390.0, 130.0, "slot s is read").to_failing(None, silent, FOLLOW).is_final
    assert Standstill(43390.0, 600.0, "slot s is read").to_failing(None, silent, FOLLOW).is_final


@pytest.mark.parametrize(
    ("still", "remedy"),
    [
        (
            Standstill(0.0, 40.0, "s", missing=("p.orders",)),
            "topic p.orders is not there → `cdc bootstrap` makes it again",
        ),
        (Standstill(0.0, 40.0, "s", blockers=("session 7",)), "session 7 locks the heartbeat table → end that session"),
    ],
)
def test_visible_cause_is_named(still: Standstill, remedy: str) -> None:
    assert str(still.to_failing("c", None, FOLLOW).error).endswith(remedy)


def test_stopped_connector_is_reported_with_its_time() -> None:
    paused = PreconditionError("connector c is PAUSED", "resume it")
    told = fail_since(paused, 43390.0, 43390.0 + 7500, is_final=True)
    assert str(told.error) == (
        "connector c is PAUSED; the newest commit in the log is from 1970-01-01 12:03:10 UTC (2 h 5 min ago)"
        " → resume it"
    )
    assert told.kind == fail_since(paused, 43390.0, 50000.0, is_final=True).kind
    assert str(fail_since(paused, None, 1.0, is_final=True).error) == str(paused)


def test_durations_as_text() -> None:
    assert [format_duration(s) for s in (-3, 0.4, 119, 120, 7199, 7200, 400000)] == [
        "0 s",
        "0 s",
        "119 s",
        "2 min",
        "119 min",
        "2 h 0 min",
        "111 h 6 min",
    ]
