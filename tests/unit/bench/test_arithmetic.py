"""Percentiles, spreads and ratios."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tests.bench import arithmetic

numbers = st.lists(st.floats(0, 1e6), min_size=1, max_size=200)


def test_percentiles_are_by_the_nearest_rank() -> None:
    hundred = [float(n) for n in range(1, 101)]
    assert arithmetic.percentiles(hundred) == {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}


def test_a_percentile_of_nothing_is_no_number() -> None:
    assert math.isnan(arithmetic.percentile([], 50))


@given(numbers, st.floats(1, 100))
def test_a_percentile_is_one_of_the_values_and_not_exceeded_by_so_many(values: list[float], percent: float) -> None:
    found = arithmetic.percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= percent / 100 * len(values)


def test_a_spread_leaves_unknown_values_out() -> None:
    found = arithmetic.spread([3.0, math.nan, 1.0, 2.0])
    assert found == arithmetic.Spread(2.0, 1.0, 3.0, 3)
    assert arithmetic.spread([math.nan]) is None


def test_ratios_are_pair_by_pair() -> None:
    ours, theirs = {0: 1.0, 1: 3.0, 2: 5.0, 3: 7.0, 4: -1.0}, {0: 2.0, 1: 2.0, 3: 0.0, 4: -2.0}
    assert arithmetic.ratios(ours, theirs) == {0: 0.5, 1: 1.5}


def test_drift_compares_the_last_fifth_with_the_first() -> None:
    flat, rising = [(float(n), 2.0) for n in range(20)], [(float(n), float(n)) for n in range(20)]
    assert arithmetic.drift(flat) == 0.0
    assert arithmetic.drift(rising) == 16.0
    assert arithmetic.drift(list(reversed(rising))) == 16.0
    assert math.isnan(arithmetic.drift(rising[:9]))


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), max_size=300), st.integers(2, 50))
def test_thinning_keeps_the_ends(samples: list[tuple[float, float]], most: int) -> None:
    kept = arithmetic.thinned(samples, most)
    assert len(kept) == min(len(samples), most)
    assert (kept[:1], kept[-1:]) == (samples[:1], samples[-1:])
