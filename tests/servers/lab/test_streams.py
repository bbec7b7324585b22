"""The labs about time, windows, joins and patterns: each shows the failure, and what helps."""

from cdc.lab.streams import event_time, payments, stream_stream, summaries
from tests.servers.lab.running import watch
from tests.support.servers_fixture import Servers


def test_a_rate_by_arrival_has_a_spike_and_by_event_time_none(servers: Servers) -> None:
    found = watch(servers, "event-time")
    _, away, own = (str(row[0]) for row in found.rows)
    most = f"most in {event_time.INTERVAL} s"
    assert found.cell(away, "events") == found.cell(own, "events") == event_time.EVENTS
    # nothing while the consumer is away, then all of it
    assert found.cell(away, "intervals without any") > 0
    assert found.cell(away, most) > event_time.ALARM > found.cell(own, most)
    assert found.cell(away, "false alarms") > 0
    assert found.cell(own, "false alarms") == found.cell(own, "intervals without any") == 0


def test_each_type_of_window_misses_what_another_finds(servers: Servers) -> None:
    found = watch(servers, "windows")
    tumbling, hopping, sliding, session = (str(row[0]) for row in found.rows)
    missed, false = "robots missed", "false alarms"
    assert found.cell(tumbling, missed) > found.cell(hopping, missed) > found.cell(sliding, missed) == 0
    assert found.cell(session, missed) > 0
    assert found.cell(session, false) > 0
    assert [found.cell(name, false) for name in (tumbling, hopping, sliding)] == [0, 0, 0]
    # what it costs
    assert found.cell(tumbling, "with clicks") < found.cell(hopping, "with clicks") < found.cell(sliding, "with clicks")


def test_wrong_clocks_are_undone_and_late_events_correct_what_was_told(servers: Servers) -> None:
    found = watch(servers, "stragglers")
    device, server, ignoring, correcting = (str(row[0]) for row in found.rows)
    wrong, [right] = "in a wrong window", [name for name in found.columns if name.startswith("right of")]
    windows = int(right.split()[2])
    # two of three clocks are wrong
    assert found.cell(device, wrong) == found.cell(device, "events") * 2 // 3
    assert 0 < found.cell(server, wrong) < found.cell(device, wrong)
    assert found.cell(ignoring, wrong) == found.cell(correcting, wrong) == 0
    assert found.cell(ignoring, "ignored") == found.cell(correcting, "results told again") > 0
    assert found.cell(device, right) < windows
    assert found.cell(ignoring, right) < found.cell(correcting, right) == windows


def test_a_join_without_state_loses_and_with_state_it_is_right(servers: Servers) -> None:
    found = watch(servers, "joins")
    names = [str(row[0]) for row in found.rows]
    for name in names[::2]:
        assert found.cell(name, "missing") > 0
        assert found.cell(name, "not expected") > 0
    for name in names[1::2]:
        assert found.cell(name, "missing") == found.cell(name, "not expected") == 0
    # what a stream needs is forgotten again
    assert found.cell(names[1], "most entries kept") < stream_stream.SEARCHES


def test_a_join_run_again_gives_another_tax_unless_by_version(servers: Servers) -> None:
    found = watch(servers, "tax")
    first, *again = (str(row[0]) for row in found.rows)
    newest, by_version = "tax by the newest rate", "tax by version"
    taxes = {found.cell(name, newest) for name in (first, *again)}
    assert len(taxes) >= 4
    assert {found.cell(name, by_version) for name in (first, *again)} == {found.cell(first, newest)}
    # of those whose order is forced
    assert all(found.cell(name, "sales changed") > 0 for name in again[:3])
    assert all(found.cell(name, "changed by version") == 0 for name in again)
    assert len({found.cell(name, "switches of partition") for name in (first, *again[:3])}) == 4


def test_sketches_are_nearly_right_and_can_be_merged(servers: Servers) -> None:
    found = watch(servers, "approximate")
    exact, sample, added, merged, _, _, pages = (str(row[0]) for row in found.rows)
    assert found.cell(sample, "off by %") > 50
    assert found.cell(added, "off by %") > 50
    # three times the standard error
    assert found.cell(merged, "off by %") < 5
    assert found.cell(merged, "bytes kept") * 100 < found.cell(exact, "bytes kept")
    assert found.cell(pages, "answer") == summaries.TOP
    assert found.cell(pages, "off by %") < 5


def test_a_pattern_is_found_by_key_and_event_time_only(servers: Servers) -> None:
    found = watch(servers, "patterns")
    shop, card, query, event_time = (str(row[0]) for row in found.rows)
    assert found.cell(shop, "missed") > 0
    for name in (card, query):
        assert found.cell(name, "missed") > 0
        assert found.cell(name, "false alarms") > 0
    assert found.cell(event_time, "missed") == found.cell(event_time, "false alarms") == 0
    assert found.cell(event_time, "found") == found.cell(event_time, "patterns") == 3 * payments.OF_STORY


def test_saved_searches_that_are_run_again_miss_what_came_and_went(servers: Servers) -> None:
    found = watch(servers, "percolator")
    seldom, often, percolator = (str(row[0]) for row in found.rows)
    assert found.cell(seldom, "missed") > found.cell(often, "missed") > found.cell(percolator, "missed") == 0
    late, searches = "told after changes", "searches over all flats"
    assert found.cell(seldom, late) > found.cell(often, late) > found.cell(percolator, late) == 0
    # to miss less costs more
    assert found.cell(seldom, searches) < found.cell(often, searches)
    assert found.cell(percolator, searches) == 0
