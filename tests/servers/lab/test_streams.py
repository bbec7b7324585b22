"""The labs about time, windows, joins and patterns: each shows the failure, and what helps."""

from cdc.lab.streams import approximate, event_time, joined, patterns
from tests.servers.lab.running import cell, watch
from tests.support.parts.servers_fixture import Servers


def test_a_rate_by_arrival_has_a_spike_and_by_event_time_none(servers: Servers) -> None:
    found = watch(servers, "event-time")
    _, away, own = (str(row[0]) for row in found.rows)
    most = f"most in {event_time.INTERVAL} s"
    assert cell(found, away, "events") == cell(found, own, "events") == event_time.EVENTS
    # nothing while the consumer is away, then all of it
    assert cell(found, away, "intervals without any") > 0
    assert cell(found, away, most) > event_time.ALARM > cell(found, own, most)
    assert cell(found, away, "false alarms") > 0
    assert cell(found, own, "false alarms") == cell(found, own, "intervals without any") == 0


def test_each_type_of_window_misses_what_another_finds(servers: Servers) -> None:
    found = watch(servers, "windows")
    tumbling, hopping, sliding, session = (str(row[0]) for row in found.rows)
    missed, false = "robots missed", "false alarms"
    assert cell(found, tumbling, missed) > cell(found, hopping, missed) > cell(found, sliding, missed) == 0
    assert cell(found, session, missed) > 0
    assert cell(found, session, false) > 0
    assert [cell(found, name, false) for name in (tumbling, hopping, sliding)] == [0, 0, 0]
    # what it costs
    assert (
        cell(found, tumbling, "with clicks") < cell(found, hopping, "with clicks") < cell(found, sliding, "with clicks")
    )


def test_wrong_clocks_are_undone_and_late_events_correct_what_was_told(servers: Servers) -> None:
    found = watch(servers, "stragglers")
    device, server, ignoring, correcting = (str(row[0]) for row in found.rows)
    wrong, [right] = "in a wrong window", [name for name in found.columns if name.startswith("right of")]
    windows = int(right.split()[2])
    # two of three clocks are wrong
    assert cell(found, device, wrong) == cell(found, device, "events") * 2 // 3
    assert 0 < cell(found, server, wrong) < cell(found, device, wrong)
    assert cell(found, ignoring, wrong) == cell(found, correcting, wrong) == 0
    assert cell(found, ignoring, "ignored") == cell(found, correcting, "results told again") > 0
    assert cell(found, device, right) < windows
    assert cell(found, ignoring, right) < cell(found, correcting, right) == windows


def test_a_join_without_state_loses_and_with_state_it_is_right(servers: Servers) -> None:
    found = watch(servers, "joins")
    names = [str(row[0]) for row in found.rows]
    for name in names[::2]:
        assert cell(found, name, "missing") > 0
        assert cell(found, name, "not expected") > 0
    for name in names[1::2]:
        assert cell(found, name, "missing") == cell(found, name, "not expected") == 0
    # what a stream needs is forgotten again
    assert cell(found, names[1], "most entries kept") < joined.SEARCHES


def test_a_join_run_again_gives_another_tax_unless_by_version(servers: Servers) -> None:
    found = watch(servers, "tax")
    first, *again = (str(row[0]) for row in found.rows)
    newest, by_version = "tax by the newest rate", "tax by version"
    taxes = {cell(found, name, newest) for name in (first, *again)}
    assert len(taxes) >= 4
    assert {cell(found, name, by_version) for name in (first, *again)} == {cell(found, first, newest)}
    # of those whose order is forced
    assert all(cell(found, name, "sales changed") > 0 for name in again[:3])
    assert all(cell(found, name, "changed by version") == 0 for name in again)
    assert len({cell(found, name, "switches of partition") for name in (first, *again[:3])}) == 4


def test_sketches_are_nearly_right_and_can_be_merged(servers: Servers) -> None:
    found = watch(servers, "approximate")
    exact, sample, added, merged, _, _, pages = (str(row[0]) for row in found.rows)
    assert cell(found, sample, "off by %") > 50
    assert cell(found, added, "off by %") > 50
    # three times the standard error
    assert cell(found, merged, "off by %") < 5
    assert cell(found, merged, "bytes kept") * 100 < cell(found, exact, "bytes kept")
    assert cell(found, pages, "answer") == approximate.TOP
    assert cell(found, pages, "off by %") < 5


def test_a_pattern_is_found_by_key_and_event_time_only(servers: Servers) -> None:
    found = watch(servers, "patterns")
    shop, card, query, event_time = (str(row[0]) for row in found.rows)
    assert cell(found, shop, "missed") > 0
    for name in (card, query):
        assert cell(found, name, "missed") > 0
        assert cell(found, name, "false alarms") > 0
    assert cell(found, event_time, "missed") == cell(found, event_time, "false alarms") == 0
    assert cell(found, event_time, "found") == cell(found, event_time, "patterns") == 3 * patterns.OF_STORY


def test_saved_searches_that_are_run_again_miss_what_came_and_went(servers: Servers) -> None:
    found = watch(servers, "percolator")
    seldom, often, percolator = (str(row[0]) for row in found.rows)
    assert cell(found, seldom, "missed") > cell(found, often, "missed") > cell(found, percolator, "missed") == 0
    late, searches = "told after changes", "searches over all flats"
    assert cell(found, seldom, late) > cell(found, often, late) > cell(found, percolator, late) == 0
    # to miss less costs more
    assert cell(found, seldom, searches) < cell(found, often, searches)
    assert cell(found, percolator, searches) == 0
