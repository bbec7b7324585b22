"""The labs about messages and logs: each shows the failure, and what helps. No number is known beforehand."""

from cdc.lab.logs import backpressure, direct, groups, retention
from cdc.lab.logs.compaction import ACCOUNTS
from cdc.lab.temporary import open_admin
from tests.servers.lab.running import PartsOfTests, watch
from tests.support.servers_fixture import Servers


def test_direct_messages_are_lost_while_the_consumer_is_away_and_those_of_the_log_are_not(servers: Servers) -> None:
    found = watch(servers, "direct")
    lost = found.cell("UDP", "lost")
    assert 0 < lost < direct.EVENTS
    # the producer heard nothing of it
    assert found.cell("UDP", "refused") == 0
    # the same absence: the webhook's producer heard of each loss
    assert found.cell("webhook", "lost") == found.cell("webhook", "refused") == lost
    assert found.cell("webhook, sent again", "lost") == 0
    assert found.cell("webhook, sent again", "kept by the producer") == lost
    assert found.cell("log", "received") == direct.EVENTS
    assert found.cell("log", "kept by the producer") == found.cell("log", "refused") == 0


def test_a_queue_loses_the_order_and_a_log_waits(servers: Servers) -> None:
    found = watch(servers, "queue")
    overtaken, held_up = "done after a later one of the same key", "held up by the slow one"
    assert found.cell("queue", overtaken) > 0
    assert found.cell("log", overtaken) == 0
    # one worker died in each, and its message came again
    assert found.cell("queue", "deliveries") == found.cell("log", "deliveries") == found.cell("log", "messages") + 1
    assert found.cell("log", held_up) > found.cell("queue", held_up)


def test_a_group_gets_all_events_though_a_member_dies_in_order_within_a_key_only(servers: Servers) -> None:
    found = watch(servers, "groups")
    shared, alone, single = (str(row[0]) for row in found.rows)
    assert [found.cell(name, "lost") for name in (shared, alone, single)] == [0, 0, 0]
    assert [found.cell(name, "members at work") for name in (shared, alone, single)] == [2, 1, 1]
    # what the dead member had handled and not committed came again
    assert 0 < found.cell(shared, "twice") < groups.EVENTS
    assert found.cell(shared, "out of order") > 0
    assert found.cell(alone, "out of order") > 0
    assert found.cell(single, "out of order") == 0
    assert [found.cell(name, "out of order within a key") for name in (shared, alone, single)] == [0, 0, 0]


def test_a_fast_producer_loses_events_or_memory_or_time(servers: Servers) -> None:
    found = watch(servers, "backpressure")
    drop, memory, log, block = (str(row[0]) for row in found.rows)
    assert found.cell(drop, "lost") > 0
    assert [found.cell(name, "lost") for name in (memory, log, block)] == [0, 0, 0]
    assert found.cell(memory, "most waiting") > backpressure.EVENTS / 2
    assert found.cell(drop, "most waiting") < found.cell(memory, "most waiting")
    assert found.cell(block, "most waiting") < found.cell(memory, "most waiting")
    assert found.cell(block, "median latency ms") < found.cell(memory, "median latency ms")
    assert found.cell(block, "producer took ms") > found.cell(memory, "producer took ms")


def test_the_slow_consumer_alone_falls_off_the_end_unless_it_is_warned(servers: Servers) -> None:
    found = watch(servers, "retention")
    quick, slow, strict, watched = (str(row[0]) for row in found.rows)
    assert 0 < found.cell(slow, "gone unread") < retention.EVENTS
    assert found.cell(slow, "still there, unread") == 0
    # what is worse: it is not told
    assert found.cell(slow, "was told") == "nothing"
    assert found.cell(strict, "was told") == "its offset is out of range"
    assert found.cell(strict, "read") < found.cell(slow, "read")
    assert found.cell(strict, "still there, unread") >= retention.KEPT
    assert found.cell(quick, "read") == found.cell(watched, "read") == retention.EVENTS
    assert found.cell(watched, "was told").endswith("behind, 0 of them gone")


def test_a_compacted_log_is_a_whole_table_and_no_history(servers: Servers) -> None:
    found = watch(servers, "compaction")
    states, events, kept = "balances, compacted", "events, compacted", "events, all kept"
    assert found.cell(states, "left") < found.cell(states, "written")
    assert found.cell(states, "accounts right") == ACCOUNTS
    assert found.cell(events, "accounts wrong") > 0
    assert found.cell(kept, "left") == found.cell(kept, "written")
    assert found.cell(kept, "accounts right") == ACCOUNTS


def test_the_labs_leave_nothing_in_the_broker(servers: Servers) -> None:
    parts = PartsOfTests(servers)
    watch(servers, "direct")
    with open_admin(parts.kafka_bootstrap) as admin:
        assert [name for name in admin.list_topics() if str(name).startswith("lab-")] == []
        assert [group for group in admin.list_groups() if "lab-" in str(group)] == []
