"""What the labs about streams count, on values: an idea that were false would be counted so."""

from collections import Counter
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdc.lab.streams import approximate, event_time, joined, patterns, percolator, stragglers, tax, windows
from cdc.lab.streams.approximate import Exact, Sample, Sketches
from cdc.lab.streams.joined import (
    FollowChange,
    HomeTimelines,
    PageView,
    PostChange,
    ProfileChange,
    ResultClick,
    Search,
    SearchesWithClicks,
    ViewsWithTowns,
)
from cdc.lab.streams.patterns import OF_ALL, OF_WINDOWS, CardPayment
from cdc.lab.streams.percolator import FlatChange, Match, SavedSearch, Told
from cdc.lab.streams.stragglers import DeviceReport, Received
from cdc.lab.streams.tax import Sale, TaxRate

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
def test_events_happen_evenly(seed: int) -> None:
    times = event_time.plan_times(Random(seed))
    rate = event_time.count(times)
    assert sum(rate) == event_time.EVENTS
    assert (rate.count(0), event_time.count_alarms(rate)) == (0, 0)


def test_a_rate_counts_empty_intervals_and_alarms() -> None:
    rate = event_time.count((0.1, *[0.7] * 65))
    assert rate == [1, 0, 0, 65]
    assert event_time.count_alarms(rate) == 1


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
    planned = stragglers.plan_devices(Random(seed))
    assert sorted(each.clock for each in planned) == sorted(stragglers.CLOCKS)
    [offline] = [each.offline for each in planned if each.offline]
    for each in planned:
        assert len(each.happens) == stragglers.WINDOWS * stragglers.OF_WINDOW
        assert any(offline[0] <= at < offline[1] for at in each.happens)
        assert each.happens[-1] > offline[1]


def receive(happened: float, sent: float, received: float) -> Received:
    return Received(DeviceReport("d", 0, happened, sent), received, truth=happened)


def test_the_quickest_report_tells_how_wrong_a_clock_is() -> None:
    # 100 s ahead; 0.1 s, 2 s and 0.2 s underway
    events = [receive(101, 101, 1.1), receive(101, 103, 5), receive(104, 105, 5.2)]
    assert stragglers.measure_clocks(events) == {"d": pytest.approx(-99.9)}


def test_a_late_event_is_ignored_or_told_again() -> None:
    window, grace = stragglers.WINDOW, stragglers.GRACE
    events = [
        receive(0.1, 0.1, 0.1),
        receive(0.2, 0.2, window + grace),
        receive(0.3, 0.3, window + grace + 0.01),
        receive(window, window, window),
    ]
    ignoring = stragglers.tell(events, lambda each: each.report.happened, corrects=False)
    correcting = stragglers.tell(events, lambda each: each.report.happened, corrects=True)
    assert ignoring == (Counter({0: 2, 1: 1}), 1, 0)
    assert correcting == (Counter({0: 3, 1: 1}), 0, 1)


@given(SEEDS)
def test_searches_and_clicks_are_joined_as_by_comparing_all(seed: int) -> None:
    events = [event for _, event in joined.plan_searches(Random(seed))]
    both, one = SearchesWithClicks(keeps_all=True), SearchesWithClicks(keeps_all=False)
    for event in events:
        both.take(event)
        one.take(event)
    both.end()
    one.end()
    right = SearchesWithClicks.find_right(events)
    assert both.found == right
    assert both.kept == 0
    # a click that came before its search is lost, and the search counts as one that nobody clicked
    assert len(right - one.found) == len(one.found - right) == joined.SEARCHES // 5


def test_a_click_belongs_to_its_search_for_an_hour() -> None:
    events: list[Search | ResultClick] = [
        Search(1, 0.0),
        ResultClick(1, 1, 60.0),
        ResultClick(2, 1, 60.1),
        Search(2, 100.0),
    ]
    assert SearchesWithClicks.find_right(events) == {(1, 1), (2, None)}
    join = SearchesWithClicks(keeps_all=True)
    for event in events:
        join.take(event)
    assert join.found == {(1, 1)}
    join.end()
    assert join.found == {(1, 1), (2, None)}


@given(SEEDS)
def test_views_are_joined_with_the_town_of_their_time(seed: int) -> None:
    events = joined.plan_views(Random(seed))
    following, copied = ViewsWithTowns(keeps_all=True), ViewsWithTowns(keeps_all=False)
    for event in events:
        following.take(event)
        copied.take(event)
    right = ViewsWithTowns.find_right(events)
    assert following.found == right != copied.found


def test_a_copy_that_is_not_followed_has_the_old_town() -> None:
    events: list[ProfileChange | PageView] = [
        ProfileChange("u", "Rome"),
        PageView(1, "u"),
        ProfileChange("u", "Oslo"),
        PageView(2, "u"),
    ]
    assert ViewsWithTowns.find_right(events) == {(1, "Rome"), (2, "Oslo")}
    join = ViewsWithTowns(keeps_all=False)
    for event in events:
        join.take(event)
    assert join.found == {(1, "Rome"), (2, "Rome")}


@settings(max_examples=20)
@given(SEEDS)
def test_timelines_kept_by_changes_are_those_of_the_query(seed: int) -> None:
    events = joined.plan_posts(Random(seed))
    both, posts_only = HomeTimelines(keeps_all=True), HomeTimelines(keeps_all=False)
    for event in events:
        both.take(event)
        posts_only.take(event)
    right = HomeTimelines.find_right(events)
    assert both.found == right
    # older posts of whom one follows are missing, those of whom one followed stay
    assert right - posts_only.found
    assert posts_only.found - right


def test_who_follows_gets_older_posts_and_loses_them() -> None:
    join = HomeTimelines(keeps_all=True)
    join.take(PostChange(1, "a", True))
    join.take(FollowChange("b", "a", True))
    assert join.found == {("b", 1)}
    join.take(FollowChange("b", "a", False))
    assert join.found == set()


@given(SEEDS)
def test_a_tax_by_version_is_the_same_in_any_order_and_by_the_newest_rate_is_not(seed: int) -> None:
    events = tax.plan_sales(Random(seed))
    mixed = Random(seed).sample(events, len(events))
    assert tax.tax_by_version(mixed) == tax.tax_by_version(events) == tax.tax_by_newest(events)
    assert tax.tax_by_newest(mixed) != tax.tax_by_newest(events)


@given(SEEDS)
def test_turns_read_each_message_once_and_otherwise_than_it_happened(seed: int) -> None:
    events = tax.plan_sales(Random(seed))
    partitions = [tax.OF_SALES if isinstance(event, Sale) else tax.OF_RATES for event in events]
    turns = tax.take_turns(partitions)
    assert sorted(turns) == sorted(partitions)
    assert turns != partitions


def test_a_sale_waits_for_the_version_that_it_names() -> None:
    read: list[Sale | TaxRate] = [TaxRate("DE1", "DE", 10), Sale(1, "DE", 200, "DE2"), TaxRate("DE2", "DE", 20)]
    assert tax.tax_by_newest(read) == {1: 20.0}
    assert tax.tax_by_version(read) == {1: 40.0}


def pay(at: float, is_paid: bool, card: str = "c") -> CardPayment:
    return CardPayment(card, "s", at, is_paid)


@pytest.mark.parametrize(
    ("payments_made", "is_found"),
    [
        ([(0, False), (1, False), (2, False), (3, True)], True),
        ([(0, False), (1, False), (2, False), (300, True)], True),
        ([(0, False), (1, False), (2, False), (301, True)], False),
        ([(0, False), (1, True), (2, False), (3, False), (4, True)], False),
        ([(0, False), (1, False), (2, False)], False),
    ],
)
def test_a_pattern_has_an_order_and_five_minutes(payments_made: list[tuple[float, bool]], is_found: bool) -> None:
    made = [pay(at, is_paid) for at, is_paid in payments_made]
    assert patterns.match_in_order(made) == patterns.ask(made, OF_ALL) == ({"c"} if is_found else set())


@settings(max_examples=20)
@given(SEEDS)
@example(19557990)
def test_stories_are_told_apart_by_event_time_and_not_otherwise(seed: int) -> None:
    coming = patterns.plan_payments(Random(seed))
    right = patterns.ask(coming, OF_ALL)
    assert len(right) == 3 * patterns.OF_STORY
    assert patterns.match_in_order(patterns.wait_for_late(coming)) == right
    as_they_come, asked = patterns.match_in_order(coming), patterns.ask(coming, OF_WINDOWS)
    # a failure that comes late, a success that comes late
    assert (len(right - as_they_come), len(as_they_come - right)) == (patterns.OF_STORY, patterns.OF_STORY)
    # across windows; two stories that have no such order
    assert (len(right - asked), len(asked - right)) == (patterns.OF_STORY, 2 * patterns.OF_STORY)


def test_sketches_of_parts_are_merged_and_not_added() -> None:
    exact, parts = Exact(), [Sketches(), Sketches()]
    for part in parts:
        visits = [(f"visitor {number}", f"page {number % 20}") for number in range(1_000)]
        part.add(visits)
        exact.add(visits)
    assert approximate.count_visitors(parts) == pytest.approx(len(exact.visitors), rel=0.05)
    assert sum(approximate.count_visitors([part]) for part in parts) == pytest.approx(2 * len(exact.visitors), rel=0.05)
    assert approximate.merge_pages(parts) == exact.pages
    assert approximate.list_top(exact.pages)[0] == "page 9"


def test_a_sample_counts_each_for_those_that_are_not_in_it() -> None:
    sample = Sample(Random(1))
    sample.add([("one visitor", "page")] * 10_000)
    assert sample.visitors == approximate.SAMPLE
    assert sample.pages["page"] == pytest.approx(10_000, rel=0.5)


@given(SEEDS)
def test_a_bargain_is_gone_before_all_searches_are_run_again(seed: int) -> None:
    searches = percolator.plan_searches(Random(seed))
    changes = percolator.plan_flats(Random(seed))
    bargains = [m for m in percolator.find_matches(searches, changes) if m.pair[1].startswith("bargain")]
    # each is found by one search at least
    assert len({match.pair[1] for match in bargains}) == percolator.CHANGES // percolator.ROUND
    assert all(match.ends - match.begins == 3 for match in bargains)
    assert all(match.begins // percolator.ROUND == match.ends // percolator.ROUND for match in bargains)


def test_a_match_begins_and_ends_with_changes() -> None:
    search = SavedSearch("s", "Rome", 500, "lift")
    changes = [
        FlatChange("f", "lift garden", "Rome", 600),
        FlatChange("f", "lift garden", "Rome", 500),
        FlatChange("g", "garden", "Rome", 500),
        FlatChange("f", "lift garden", "Rome", 500, is_there=False),
        FlatChange("f", "lift", "Rome", 400),
    ]
    assert percolator.find_matches([search], changes) == [Match(("s", "f"), 2, 4), Match(("s", "f"), 5, 6)]


def test_who_is_told_after_the_end_is_not_told() -> None:
    matches = [Match(("s", "f"), 2, 4), Match(("s", "g"), 5, 9), Match(("s", "h"), 5, 9)]
    told: list[Told] = [(("s", "f"), 4), (("s", "g"), 8), (("s", "g"), 7), (("s", "h"), 5)]
    # after two changes, and at once
    assert percolator.measure(matches, told) == (1, 1.0)
