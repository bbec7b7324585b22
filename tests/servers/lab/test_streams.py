"""The labs about time, windows, joins and patterns: each shows the failure, and what helps."""

from lab.streams import event_time
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
