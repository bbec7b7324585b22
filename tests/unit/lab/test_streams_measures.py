"""What the labs about streams count, on values: an idea that were false would be counted so."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.streams import devices, event_time, stragglers, windows
from lab.streams.devices import DeviceReport, Received
from lab.streams.event_time import Arrival

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
def test_events_happen_evenly(seed: int) -> None:
    times = event_time.plan_times(Random(seed))
    rate = event_time.count([Arrival(at, 0.0) for at in times], lambda each: each.happened)
    assert sum(rate.counts) == event_time.EVENTS
    assert (rate.empty, rate.alarms) == (0, 0)


def test_a_rate_counts_empty_intervals_and_alarms() -> None:
    arrivals = [Arrival(0.0, at) for at in (0.1, *[0.7] * 65)]
    rate = event_time.count(arrivals, lambda each: each.arrived)
    assert rate.counts == (1, 0, 0, 65)
    assert (rate.empty, rate.alarms) == (2, 1)


TIMES = st.lists(st.floats(0, 400, width=16), min_size=1, max_size=60).map(sorted)


@given(TIMES)
def test_only_sliding_windows_never_miss(times: list[float]) -> None:
    is_over = windows.is_over(times)
    found = {
        name: max(windows.count(times, bounds) for bounds in assign(times)) > windows.MOST
        for name, assign in windows.TYPES.items()
    }
    tumbling, hopping, sliding, _ = found.values()
    assert sliding == is_over
    # what a window of a minute finds is there
    assert tumbling <= hopping <= is_over


@given(TIMES)
def test_each_click_is_in_one_tumbling_window_two_hopping_ones_and_one_session(times: list[float]) -> None:
    tumbling, hopping, _, session = ([*assign(times)] for assign in windows.TYPES.values())
    for at in times:
        assert windows.count([at], (at, at + 1)) == sum(windows.count([at], bounds) for bounds in tumbling) == 1
        assert sum(windows.count([at], bounds) for bounds in session) == 1
        assert sum(windows.count([at], bounds) for bounds in hopping) == (1 if at < windows.HOP else 2)


@given(SEEDS)
def test_the_planned_robots_are_those_that_some_windows_miss(seed: int) -> None:
    read = windows.by_visitor(windows.plan_clicks(Random(seed)))
    assert {name for name, times in read.items() if windows.is_over(times)} == {
        n for n in read if n.startswith("robot")
    }
    finds = {
        name: [v for v, times in read.items() if max(windows.count(times, b) for b in assign(times)) > windows.MOST]
        for name, assign in windows.TYPES.items()
    }
    tumbling, hopping, sliding, session = finds.values()
    assert tumbling == ["robot within a minute"]
    assert hopping == ["robot across a minute", "robot within a minute"]
    assert sliding == ["robot across a hop", "robot across a minute", "robot within a minute"]
    assert session == ["patient visitor", "robot across a minute", "robot within a minute"]


@given(SEEDS)
def test_one_device_is_offline_and_back_before_the_end(seed: int) -> None:
    planned = devices.plan_devices(Random(seed))
    assert sorted(each.clock for each in planned) == sorted(devices.CLOCKS)
    [offline] = [each.offline for each in planned if each.offline]
    for each in planned:
        assert len(each.happens) == devices.WINDOWS * devices.OF_WINDOW
        assert any(offline[0] <= at < offline[1] for at in each.happens)
        assert each.happens[-1] > offline[1]


def receive(happened: float, sent: float, received: float) -> Received:
    return Received(DeviceReport("d", 0, happened, sent), received, truth=happened)


def test_the_quickest_report_tells_how_wrong_a_clock_is() -> None:
    # 100 s ahead; 0.1 s, 2 s and 0.2 s underway
    events = [receive(101, 101, 1.1), receive(101, 103, 5), receive(104, 105, 5.2)]
    assert devices.measure_clocks(events) == {"d": pytest.approx(-99.9)}


def test_a_late_event_is_ignored_or_told_again() -> None:
    window, grace = devices.WINDOW, stragglers.GRACE
    events = [
        receive(0.1, 0.1, 0.1),
        receive(0.2, 0.2, window + grace),
        receive(0.3, 0.3, window + grace + 0.01),
        receive(window, window, window),
    ]
    ignoring = stragglers.tell(events, lambda each: each.report.happened, corrects=False)
    correcting = stragglers.tell(events, lambda each: each.report.happened, corrects=True)
    assert (ignoring.counts, ignoring.ignored, ignoring.corrections) == (Counter({0: 2, 1: 1}), 1, 0)
    assert (correcting.counts, correcting.ignored, correcting.corrections) == (Counter({0: 3, 1: 1}), 0, 1)
