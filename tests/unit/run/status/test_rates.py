"""How fast a slot fills, and whether a follower catches up."""

import pytest

from cdc.columns.netting.ends import Ends, to_columns
from cdc.core.position import Lsn
from cdc.core.transaction import TransactionEnd
from cdc.run.status.judging.rates import ChangeRates, Past, fill_rate, percentile, seconds_until_full

GB = 10**9


def test_a_slot_that_moves_on_in_steps_does_not_fill() -> None:
    saw = [(15.0 * n, 100_000 * (n % 8)) for n in range(120)]
    assert fill_rate(saw) == 0
    assert seconds_until_full(64 * GB, fill_rate(saw)) is None


def test_a_slot_that_is_held_fills_at_its_rate() -> None:
    held = [(15.0 * n, 2_000_000 * 15 * n) for n in range(120)]
    rate = fill_rate(held)
    assert rate == pytest.approx(2_000_000, rel=0.02)
    assert seconds_until_full(20 * GB, rate) == pytest.approx(10_000, rel=0.02)
    # a wave on top of it changes little
    waves = [(at, size + 40_000_000 * (n % 5)) for n, (at, size) in enumerate(held)]
    assert fill_rate(waves) == pytest.approx(2_000_000, rel=0.1)


@pytest.mark.parametrize("samples", [[], [(0.0, 5)], [(float(n), 10**9 * n) for n in range(50)]])
def test_no_rate_before_a_minute(samples: list[tuple[float, int]]) -> None:
    assert fill_rate(samples) is None


def test_no_end_without_a_limit_or_beyond_any_plan() -> None:
    assert seconds_until_full(None, 1e9) is None
    assert seconds_until_full(10**15, 1.0) is None
    assert seconds_until_full(-5, 1.0) == 0


@pytest.mark.parametrize(
    ("pace", "trend", "left"),
    [
        (ChangeRates(310, 520), "catching up", 1000.0),
        (ChangeRates(310, 200), "falling behind", None),
        (ChangeRates(310, 312), "not catching up", None),
        (ChangeRates(0, 0), "not catching up", None),
        (ChangeRates(310, None), None, None),
    ],
)
def test_trend_and_time_left(pace: ChangeRates, trend: str | None, left: float | None) -> None:
    assert pace.trend(600.0) == trend
    assert pace.caught_up_in(210_000) == left
    assert pace.trend(0.0) is None


def ends(*at: float) -> Ends:
    counts = {"public.orders": 10, "cdc.heartbeat": 1}
    return to_columns([TransactionEnd(n, n + 1, Lsn(n + 1), round(1000 * each), counts) for n, each in enumerate(at)])


def test_pace_of_a_follower_from_two_looks() -> None:
    past, tables = Past(), ["public.orders"]
    first = past.measure("search", 1000.0, 500, ends(950.0, 990.0), tables)
    assert (first.arrives, first.applies) == (20 / 60, None)
    # in 30 s, 20 changes came and 380 fewer wait: it has applied 400
    second = past.measure("search", 1030.0, 120, ends(950.0, 990.0, 1010.0, 1020.0), tables)
    assert second.applies == pytest.approx(400 / 30)
    assert second.trend(30.0) == "catching up"


def test_percentiles() -> None:
    assert percentile([], 50) is None
    assert percentile([1.0, 2.0, 9.0], 50) == 2.0
