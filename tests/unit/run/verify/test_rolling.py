"""Which table's turn it is, what is kept of turns, how much of the time is worked, and how it ends."""

import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.cli.verbs.verify import parse_period
from cdc.columns.rows.compare import Comparison
from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.core.position import Lsn
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.run.status.stream_report import open_reports
from cdc.run.status.things import TableVerdict, Verification, to_time
from cdc.run.verify.kept_results import VERIFYING, Turn, keep_results, keep_turn
from cdc.run.verify.report import Report, Verdict
from cdc.run.verify.rolling.duty_cycle import DutyCycle, StoppedError
from cdc.run.verify.rolling.schedule import AGAIN_SECONDS, choose_next, list_tried
from tests.unit.config.test_settings import made

NOW = 1_000_000.0
TABLES = st.sampled_from(["a.a", "a.b", "a.c", "a.d"])
EQUAL, MOVED = Verdict(Comparison(3, 3)), Verdict(Comparison(3, 3), moved=1)
DIFFERENT = Verdict(Comparison(3, 2, missing=1, differing=2))


@given(st.sets(TABLES, min_size=1), st.dictionaries(TABLES, st.floats(NOW - 9e4, NOW + 9e4)), st.floats(0, 9e4))
def test_no_table_waits_longer_than_its_period(tables: set[str], tried: dict[str, float], every: float) -> None:
    chosen, wait = choose_next(tried, tables, NOW, every)
    assert chosen in tables
    assert 0 <= wait <= every
    overdue = {table for table in tables if not NOW - every < tried.get(table, float("-inf")) <= NOW}
    assert (wait == 0) >= bool(overdue)
    if overdue and all(table in tried for table in tables):
        assert chosen in overdue


def test_turns_go_round() -> None:
    tried, now = dict[str, float](), NOW
    turns = list[str]()
    for _ in range(7):
        table, wait = choose_next(tried, ["b", "a", "c"], now, 60)
        now += wait + 1
        tried[table] = now
        turns.append(table)
    assert turns == ["a", "b", "c"] * 2 + ["a"]
    assert now >= NOW + 120


def verification(*tables: str, at: float = NOW) -> Verification:
    return Verification(
        at=to_time(at), verdict="equal", by_table={table: TableVerdict(tried=to_time(at)) for table in tables}
    )


def test_a_new_followers_tables_are_compared_first() -> None:
    known = {"lake": verification("a", "b"), "search": verification("a", at=NOW - 9)}
    assert list_tried(known, {"lake": ["a", "b"], "search": ["a"]}, 60) == {"a": NOW - 9, "b": NOW}
    assert list_tried(known, {"lake": ["a", "b"], "search": ["a", "b"]}, 60) == {"a": NOW - 9}
    assert list_tried({}, {"lake": ["a"]}, 60) == {}


@pytest.mark.parametrize(("every", "wait"), [(3600.0, AGAIN_SECONDS), (60.0, 60.0)])
def test_what_could_not_be_compared_is_tried_again_soon(every: float, wait: float) -> None:
    locked = TableVerdict(tried=to_time(NOW), why="it is locked")
    known = {"lake": Verification(at=to_time(NOW), verdict="", by_table={"a": locked})}
    assert choose_next(list_tried(known, {"lake": ["a"]}, every), ["a"], NOW, every) == ("a", wait)


def kept(folder: Path) -> Pipeline:
    return Pipeline(made(pipeline={"name": "shop", "state": str(folder)}))


def read(pipeline: Pipeline) -> Verification:
    return open_reports(pipeline).read_verifications()["lake"]


def turn(table: str, verdict: Verdict) -> Turn:
    return Turn(TableName.parse(table), {"lake": verdict}, 60.0, Lsn(9))


def test_what_turns_have_found_adds_up(tmp_path: Path) -> None:
    pipeline, held = kept(tmp_path), {"lake": {"a.a", "a.b"}}
    keep_turn(pipeline, turn("a.a", EQUAL), held)
    first = read(pipeline)
    assert (first.verdict, first.tables, first.of, first.oldest_at) == ("not all compared", 1, 2, None)
    keep_turn(pipeline, turn("a.b", MOVED), held)
    both = read(pipeline)
    assert (both.verdict, both.rows, both.moved, both.every_seconds) == ("equal", 6, 1, 60.0)
    assert both.oldest_at == min(verdict.at for verdict in both.by_table.values() if verdict.at)
    keep_turn(pipeline, turn("a.b", DIFFERENT), held)
    assert (read(pipeline).verdict, read(pipeline).differences, read(pipeline).keys) == ("different", 1, 3)
    # a table that is no longer held is forgotten
    keep_turn(pipeline, turn("a.a", EQUAL), {"lake": {"a.a"}})
    assert (read(pipeline).verdict, read(pipeline).of) == ("equal", 1)


def test_what_is_known_stays_while_a_table_cannot_be_compared(tmp_path: Path) -> None:
    pipeline, held = kept(tmp_path), {"lake": {"a.a"}}
    keep_turn(pipeline, turn("a.a", DIFFERENT), held)
    keep_turn(pipeline, turn("a.a", Verdict(None, stopped=PreconditionError("it is locked"))), held)
    found = read(pipeline)
    assert (found.verdict, found.by_table["a.a"].why) == ("different", "it is locked")
    # a comparison of all knows better
    keep_results(pipeline, Report(Lsn(9), {"lake": {TableName("a", "a"): EQUAL}}), 1.0)
    assert (read(pipeline).verdict, read(pipeline).seconds) == ("equal", 1.0)


def test_since_when_a_table_cannot_be_compared_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count(NOW)
    monkeypatch.setattr("cdc.run.verify.kept_results.time.time", lambda: next(ticks))
    pipeline, held = kept(tmp_path), {"lake": {"a.a"}}
    locked = Verdict(None, stopped=PreconditionError("it is locked"))
    keep_turn(pipeline, turn("a.a", locked), held)
    first = read(pipeline)
    since = first.by_table["a.a"].tried
    assert first.oldest_at == since
    keep_turn(pipeline, turn("a.a", locked), held)
    keep_results(pipeline, Report(Lsn(9), {"lake": {TableName("a", "a"): locked}}), 1.0)
    again = read(pipeline)
    assert (again.by_table["a.a"].waits_since, again.oldest_at) == (since, since)
    assert again.by_table["a.a"].tried > since
    keep_turn(pipeline, turn("a.a", EQUAL), held)
    assert read(pipeline).by_table["a.a"].since is None
    assert read(pipeline).by_table["a.a"].waits_since > since


def test_a_rolling_verification_that_was_given_up_is_not_missed_for_ever(tmp_path: Path) -> None:
    pipeline, whole = kept(tmp_path), Report(Lsn(9), {"lake": {TableName("a", "a"): EQUAL}})
    keep_turn(pipeline, turn("a.a", EQUAL), {"lake": {"a.a"}})
    with pipeline.leases.hold(VERIFYING):
        keep_results(pipeline, whole, 1.0)
        assert read(pipeline).every_seconds == 60.0
    keep_results(pipeline, whole, 1.0)
    assert read(pipeline).every_seconds is None


@pytest.mark.parametrize("damage", [None, b"", b"{", b'{"at": 7}', b"[]"])
def test_kept_state_may_be_lost_or_damaged(tmp_path: Path, damage: bytes | None) -> None:
    pipeline, held = kept(tmp_path), {"lake": {"a.a", "a.b"}}
    keep_turn(pipeline, turn("a.a", EQUAL), held)
    [file] = tmp_path.rglob("lake.json")
    file.unlink() if damage is None else file.write_bytes(damage)
    known = open_reports(pipeline).read_verifications()
    assert list_tried(known, held, 60) == {}
    keep_turn(pipeline, turn("a.b", EQUAL), held)
    assert read(pipeline).tables == 1


class Clock(threading.Event):
    """Stands for the time that passes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.now, self.rests = 0.0, list[float]()
        monkeypatch.setattr("cdc.run.verify.rolling.duty_cycle.time.monotonic", lambda: self.now)

    def wait(self, timeout: float | None = None) -> bool:
        self.rests.append(timeout or 0.0)
        self.now += timeout or 0.0
        return self.is_set()


@pytest.mark.parametrize(("share", "rests"), [(0.2, [8.0, 4.0]), (1.0, [0.0, 0.0])])
def test_it_works_for_a_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch, share: float, rests: Sequence[float]
) -> None:
    clock = Clock(monkeypatch)
    pace = DutyCycle(share, clock)
    pace.begin()
    clock.now += 2
    pace.rest()
    # what was waited for is no work
    clock.now += 100
    pace.begin()
    clock.now += 1
    pace.rest()
    assert clock.rests == rests
    clock.set()
    for end in (pace.rest, pace.check):
        with pytest.raises(StoppedError):
            end()


def test_a_period_is_written_as_one_says_it() -> None:
    assert [parse_period(text) for text in ("90s", "30m", "1h", " 1d")] == [90.0, 1800.0, 3600.0, 86400.0]
    for text in ("", "1", "h", "5s", "-1h", "1h30m", "1.5h"):
        with pytest.raises(ConfigurationError, match="--every"):
            parse_period(text)
