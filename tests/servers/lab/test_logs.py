"""The labs about messages and logs: each shows the failure, and what helps. No number is known beforehand."""

from cdc.lab.logs import backpressure, direct, groups, retention
from cdc.lab.logs.compaction import ACCOUNTS
from cdc.lab.temporary import open_admin
from tests.servers.lab.running import cell, watch
from tests.support.parts.servers_fixture import Servers


def test_direct_messages_are_lost_while_the_consumer_is_away_and_those_of_the_log_are_not(servers: Servers) -> None:
    found = watch(servers, "direct")
    lost = cell(found, "UDP", "lost")
    assert 0 < lost < direct.EVENTS
    # the producer heard nothing of it
    assert cell(found, "UDP", "refused") == 0
    # the same absence: the webhook's producer heard of each loss
    assert cell(found, "webhook", "lost") == cell(found, "webhook", "refused") == lost
    assert cell(found, "webhook, sent again", "lost") == 0
    assert cell(found, "webhook, sent again", "kept by the producer") == lost
    assert cell(found, "log", "received") == direct.EVENTS
    assert cell(found, "log", "kept by the producer") == cell(found, "log", "refused") == 0


def test_a_queue_loses_the_order_and_a_log_waits(servers: Servers) -> None:
    found = watch(servers, "queue")
    overtaken, held_up = "done after a later one of the same key", "held up by the slow one"
    assert cell(found, "queue", overtaken) > 0
    assert cell(found, "log", overtaken) == 0
    # one worker died in each, and its message came again
    assert cell(found, "queue", "deliveries") == cell(found, "log", "deliveries") == cell(found, "log", "messages") + 1
    assert cell(found, "log", held_up) > cell(found, "queue", held_up)


def test_a_group_gets_all_events_though_a_member_dies_in_order_within_a_key_only(servers: Servers) -> None:
    found = watch(servers, "groups")
    shared, alone, single = (str(row[0]) for row in found.rows)
    assert [cell(found, name, "lost") for name in (shared, alone, single)] == [0, 0, 0]
    assert [cell(found, name, "members at work") for name in (shared, alone, single)] == [2, 1, 1]
    # what the dead member had handled and not committed came again
    assert 0 < cell(found, shared, "twice") < groups.EVENTS
    assert cell(found, shared, "out of order") > 0
    assert cell(found, alone, "out of order") > 0
    assert cell(found, single, "out of order") == 0
    assert [cell(found, name, "out of order within a key") for name in (shared, alone, single)] == [0, 0, 0]


def test_a_fast_producer_loses_events_or_memory_or_time(servers: Servers) -> None:
    found = watch(servers, "backpressure")
    drop, memory, log, block = (str(row[0]) for row in found.rows)
    assert cell(found, drop, "lost") > 0
    assert [cell(found, name, "lost") for name in (memory, log, block)] == [0, 0, 0]
    assert cell(found, memory, "most waiting") > backpressure.EVENTS / 2
    assert cell(found, drop, "most waiting") < cell(found, memory, "most waiting")
    assert cell(found, block, "most waiting") < cell(found, memory, "most waiting")
    assert cell(found, block, "median latency ms") < cell(found, memory, "median latency ms")
    assert cell(found, block, "producer took ms") > cell(found, memory, "producer took ms")


def test_the_slow_consumer_alone_falls_off_the_end_unless_it_is_warned(servers: Servers) -> None:
    found = watch(servers, "retention")
    quick, slow, strict, watched = (str(row[0]) for row in found.rows)
    assert 0 < cell(found, slow, "gone unread") < retention.EVENTS
    assert cell(found, slow, "still there, unread") == 0
    # what is worse: it is not told
    assert cell(found, slow, "was told") == "nothing"
    assert cell(found, strict, "was told") == "its offset is out of range"
    assert cell(found, strict, "read") < cell(found, slow, "read")
    assert cell(found, strict, "still there, unread") >= retention.KEPT
    assert cell(found, quick, "read") == cell(found, watched, "read") == retention.EVENTS
    assert cell(found, watched, "was told").endswith("behind, 0 of them gone")


def test_a_compacted_log_is_a_whole_table_and_no_history(servers: Servers) -> None:
    found = watch(servers, "compaction")
    states, events, kept = "balances, compacted", "events, compacted", "events, all kept"
    assert cell(found, states, "left") < cell(found, states, "written")
    assert cell(found, states, "accounts right") == len(ACCOUNTS)
    assert cell(found, events, "accounts wrong") > 0
    assert cell(found, kept, "left") == cell(found, kept, "written")
    assert cell(found, kept, "accounts right") == len(ACCOUNTS)


def test_the_labs_leave_nothing_in_the_broker(servers: Servers) -> None:
    watch(servers, "direct")
    with open_admin(servers.values.bootstrap) as admin:
        assert [name for name in admin.list_topics() if str(name).startswith("lab-")] == []
        assert [group for group in admin.list_groups() if "lab-" in str(group)] == []
