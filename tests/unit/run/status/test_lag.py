"""The lag of a follower: heartbeats and other tables' changes do not count."""

import json

import pytest

from cdc.columns.netting.ends import Ends, to_columns
from cdc.core.position import Lsn, Position
from cdc.core.table import TableName
from cdc.core.transaction import TransactionEnd
from cdc.run.status.judging.lag import Lag, LagMeter

ORDERS = TableName("public", "orders")
BEATS = {"cdc.heartbeat": 1}
NOW = 2000.0


def ends(*counts: dict[str, int]) -> Ends:
    """A commit every ten seconds up to now, at LSNs 100, 200, …, and offsets 1, 3, …"""
    first = NOW - 10 * (len(counts) - 1)
    return to_columns(
        [
            TransactionEnd(2 * n + 1, n, Lsn(100 * (n + 1)), round((first + 10 * n) * 1000), each)
            for n, each in enumerate(counts)
        ]
    )


def lag(found: Ends, *, at: int, is_current: bool = True) -> Lag | None:
    position = Position(2 * at + 1, Lsn(100 * (at + 1)), at)
    return LagMeter([ORDERS], Lsn(900), NOW, found, is_current).measure(position)


def test_lacking_only_heartbeats_is_caught_up() -> None:
    assert lag(ends({"public.orders": 2}, BEATS, {"public.other": 5}, BEATS), at=0) == Lag(0, 0, 0.0, is_caught_up=True)


def test_lag_counts_from_the_first_lacking_commit() -> None:
    found = ends(BEATS, BEATS, {"public.orders": 2, "public.other": 1}, BEATS, {"public.orders": 3})
    assert lag(found, at=0) == Lag(5, 800, 20.0, is_caught_up=False)
    assert lag(found, at=2) == Lag(3, 600, 0.0, is_caught_up=False)


def test_nobody_is_caught_up_behind_a_stale_log() -> None:
    found = lag(ends({"public.orders": 2}, BEATS), at=1, is_current=False)
    assert found == Lag(0, 700, 0.0, is_caught_up=False)
    assert lag(ends(BEATS, {"public.orders": 2}), at=0, is_current=False) == Lag(2, 800, 0.0, is_caught_up=False)


def test_a_million_lacking_commits_become_no_million_values(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ends(BEATS, {"public.orders": 1})
    monkeypatch.delattr(Ends, "values")
    assert lag(found, at=0) == Lag(1, 800, 0.0, is_caught_up=False)
    assert lag(found, at=1, is_current=False) == Lag(0, 700, 0.0, is_caught_up=False)


def test_lag_is_unknown_without_source_or_position() -> None:
    assert LagMeter([ORDERS], None, NOW, ends(BEATS), is_log_current=True).measure(Position(1, Lsn(1), 1)) is None
    assert LagMeter([ORDERS], Lsn(1), NOW, ends(BEATS), is_log_current=True).measure(None) is None


@pytest.mark.parametrize("found", [Lag(0, 0, 0.0, is_caught_up=True), Lag(1, 2, 0.12345, is_caught_up=False)])
def test_json_keys_of_a_lag(found: Lag) -> None:
    told = json.loads(json.dumps(found.as_json()))
    assert told == {
        "changes": found.changes,
        "bytes": found.bytes,
        "seconds": round(found.seconds, 3),
        "caught_up": found.is_caught_up,
    }
